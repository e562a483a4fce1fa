"""Reciprocal Rank Fusion: pure, deterministic, each passage counted once.

Source: Cormack, Clarke & Büttcher, Reciprocal Rank Fusion, SIGIR 2009: score(d) = Σ w / (k + rank(d)).
"""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.types import Candidate, Hit


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
    dense_rank = _ranks(dense) if dense_weight else {}
    sparse_rank = _ranks(sparse) if sparse_weight else {}

    shares = _shares(sparse) if sparse_weight else {}

    def candidate(passage_id: str) -> Candidate:
        d, s = dense_rank.get(passage_id), sparse_rank.get(passage_id)
        score = (dense_weight / (k + d) if d else 0.0) + (sparse_weight / (k + s) if s else 0.0)
        return Candidate(passage_id, score, d, s, shares.get(passage_id, 0.0))

    fused = [candidate(passage_id) for passage_id in {**dense_rank, **sparse_rank}]
    worst = len(dense_rank) + len(sparse_rank) + 1
    fused.sort(key=lambda c: (-c.score, min(c.dense_rank or worst, c.sparse_rank or worst), c.dense_rank or worst))
    return tuple(fused)


def _ranks(hits: Sequence[Hit]) -> dict[str, int]:
    """1-based rank by first appearance."""
    ranks: dict[str, int] = {}
    for hit in hits:
        if hit.passage_id not in ranks:
            ranks[hit.passage_id] = len(ranks) + 1
    return ranks


def _shares(hits: Sequence[Hit]) -> dict[str, float]:
    best = max((hit.score for hit in hits), default=0.0)
    return {hit.passage_id: hit.score / best for hit in hits} if best > 0 else {}
