"""Reciprocal Rank Fusion: pure, deterministic, each passage counted once.

Source: Cormack, Clarke & Büttcher, Reciprocal Rank Fusion, SIGIR 2009: score(d) = Σ w / (k + rank(d)).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slipstream.types import Candidate, Hit, Leg


def reciprocal_rank_fusion(
    dense: Sequence[Hit],
    sparse: Sequence[Hit],
    *,
    k: int = 60,
    dense_weight: float = 1.0,
    sparse_weight: float = 1.0,
) -> tuple[Candidate, ...]:
    """Fuses two ranked lists, best first.

    A passage absent from a list gets nothing from it, and a list of weight 0 brings nothing in.
    Ties go to the better single rank, then to the dense list.
    """
    dense_ranks = _ranks(dense) if dense_weight else {}
    sparse_ranks = _ranks(sparse) if sparse_weight else {}
    scores = {passage_id: dense_weight / (k + rank) for passage_id, rank in dense_ranks.items()}
    for passage_id, rank in sparse_ranks.items():
        scores[passage_id] = scores.get(passage_id, 0.0) + sparse_weight / (k + rank)
    return _ordered(scores, dense_ranks, sparse_ranks, _shares(sparse) if sparse_weight else {})


def fuse_legs(legs: Sequence[Leg], weights: Sequence[float], k: int) -> tuple[Candidate, ...]:
    """Fuses any number of legs; a candidate's ranks and share are its best ones on that side.

    Source for variants of one query: Rackauckas, RAG-Fusion, IJNLC 13(1), 2024.
    """
    scores: dict[str, float] = {}
    ranks: dict[str, dict[str, int]] = {"dense": {}, "sparse": {}}
    shares: dict[str, float] = {}
    for leg, weight in zip(legs, weights, strict=True):
        best = ranks[leg.kind]
        for passage_id, rank in (_ranks(leg.hits) if weight else {}).items():
            scores[passage_id] = scores.get(passage_id, 0.0) + weight / (k + rank)
            best[passage_id] = min(rank, best.get(passage_id, rank))
        if leg.kind == "sparse" and weight:
            for passage_id, share in _shares(leg.hits).items():
                shares[passage_id] = max(share, shares.get(passage_id, 0.0))
    return _ordered(scores, ranks["dense"], ranks["sparse"], shares)


def _ordered(
    scores: Mapping[str, float],
    dense_ranks: Mapping[str, int],
    sparse_ranks: Mapping[str, int],
    shares: Mapping[str, float],
) -> tuple[Candidate, ...]:
    """Plain tuples are sorted, since a key function of our own would cost more than all the rest."""
    worst = len(scores) + 1
    rows: list[tuple[float, int, int, str]] = []
    for passage_id, score in scores.items():
        d, s = dense_ranks.get(passage_id, worst), sparse_ranks.get(passage_id, worst)
        rows.append((-score, d if d < s else s, d, passage_id))
    rows.sort()
    dense, sparse, share = dense_ranks.get, sparse_ranks.get, shares.get
    return tuple([Candidate(i, -negative, dense(i), sparse(i), share(i, 0.0)) for negative, _, _, i in rows])


def _ranks(hits: Sequence[Hit]) -> dict[str, int]:
    """1-based rank by first appearance."""
    ranks = {hit.passage_id: rank for rank, hit in enumerate(hits, 1)}
    if len(ranks) == len(hits):
        return ranks
    return {passage_id: rank for rank, passage_id in enumerate(dict.fromkeys(hit.passage_id for hit in hits), 1)}


def _shares(hits: Sequence[Hit]) -> dict[str, float]:
    """Scores as shares of the best one, which is the first."""
    best = hits[0].score if hits else 0.0
    return {hit.passage_id: hit.score / best for hit in hits} if best > 0 else {}
