"""Filtered search equals brute force: random data and filters, both legs, the embedded store beside the reference."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from contracts.store_contract import DIMENSIONS, encoding, indexed

from slipstream.stores import bm25
from slipstream.stores.base import Store
from slipstream.stores.fields import accepts
from slipstream.stores.memory import MemoryStore
from slipstream.stores.qdrant_edge import QdrantEdgeStore
from slipstream.types import And, Filter, IndexedPassage, Match, Not, Or, Range, Scalar, Scope

pytestmark = pytest.mark.anyio

PASSAGES, ROUNDS, LIMIT = 240, 80, 10
WORDS = ("pool", "连接", "cache", "缓存", "token", "前缀", "retry", "重试", "batch", "模型", "E1234-5", "index")
TYPES, AUTHORS = ("pdf", "html", "markdown", "text"), ("Ada", "李白", "Grace", "")
FIELDS: dict[str, Sequence[Scalar]] = {
    "type": TYPES,
    "collection": ("main", "side", "none"),
    "document_id": tuple(f"d{n}" for n in range(0, PASSAGES, 7)),
    "position": tuple(range(0, PASSAGES, 11)),
    "page": (0, 1, 2, 3, 9),
    "language": ("en", "zh"),
    "author": AUTHORS,
    "metadata.author": AUTHORS,
    "metadata.type": ("inner", "outer"),
    "rank": (0, 1, 2, 3, 2.0, 7),
    "weight": (0.0, 0.5, 1.5, 40.0),
    "draft": (True, False),
    "absent": ("x", 1, True),
}
RANGES = {"time": (0.0, 1_000.0), "page": (0.0, 4.0), "position": (0.0, float(PASSAGES)), "rank": (0.0, 4.0),
          "weight": (0.0, PASSAGES / 4), "author": (0.0, 1.0), "absent": (0.0, 1.0)}  # fmt: skip


def passages(pick: random.Random) -> list[IndexedPassage]:
    return [
        indexed(
            " ".join(pick.choices(WORDS, k=pick.randint(2, 12))),
            tenant=pick.choices(("a", "b", "rare"), (10, 5, 1))[0],
            document=f"d{n}",
            collection=pick.choice(("main", "side")),
            position=n,
            seed=pick.randrange(10**6),
            type=pick.choice(TYPES),
            time=pick.choice((0.0, round(pick.uniform(0, 1_000), 3), 500.0)),
            page=pick.choice((None, 0, 1, 2, 3)),
            metadata={
                "rank": pick.choice((0, 1, 2, 3)),
                "weight": n / 4,
                "type": pick.choice(("inner", "outer")),
                **({"author": pick.choice(AUTHORS)} if pick.random() < 0.8 else {}),
                **({"draft": pick.random() < 0.5} if pick.random() < 0.8 else {}),
            },
        )
        for n in range(PASSAGES)
    ]


def clause(pick: random.Random, depth: int = 3) -> Filter:
    kind = pick.choice(("match", "match", "range", "and", "or", "not") if depth else ("match", "range"))
    if kind == "match":
        field = pick.choice(sorted(FIELDS))
        return Match(field, tuple(pick.choices(FIELDS[field], k=pick.choice((1, 1, 2, 3)))))
    if kind == "range":
        field = pick.choice(sorted(RANGES))
        low, high = sorted(pick.uniform(*RANGES[field]) for _ in range(2))
        return Range(field, pick.choice((None, low, float(int(low)))), pick.choice((None, high)))
    if kind == "not":
        return Not(clause(pick, depth - 1))
    clauses = tuple(clause(pick, depth - 1) for _ in range(pick.randint(1, 3)))
    return And(clauses) if kind == "and" else Or(clauses)


def scope(pick: random.Random) -> Scope:
    collections = pick.choice(((), (), ("main",), ("main", "side"), ("none",)))
    return Scope(pick.choice(("a", "b", "rare", "nobody")), collections, pick.choice((None, *[clause(pick)] * 5)))


def dense_truth(stored: Sequence[IndexedPassage], query: np.ndarray, where: Scope) -> list[tuple[str, float]]:
    """Brute force in this file's own words: filter, multiply, sort."""
    inside = [one for one in stored if accepts(where, one.passage)]
    scored = [(one.passage.id, float(query @ one.encoding.dense)) for one in inside]
    return sorted(scored, key=lambda pair: -pair[1])[:LIMIT]


Terms = dict[str, dict[int, float]]


def terms_of(stored: Sequence[IndexedPassage]) -> Terms:
    return {one.passage.id: dict(zip(*_lists(bm25.passage_terms(one.passage.text)), strict=True)) for one in stored}


def sparse_truth(stored: Sequence[IndexedPassage], terms: Terms, text: str, where: Scope) -> list[tuple[str, float]]:
    """Statistics over the tenant, results inside the filter."""
    asked = dict(zip(*_lists(bm25.question_terms(text)), strict=True))
    tenant = [one.passage.id for one in stored if one.passage.tenant == where.tenant]
    containing = {term: sum(term in terms[i] for i in tenant) for term in asked}
    scored = [
        (one.passage.id, sum(
            weight * terms[one.passage.id][term] * bm25.idf(containing[term], len(tenant))
            for term, weight in asked.items() if term in terms[one.passage.id]
        ))
        for one in stored
        if accepts(where, one.passage)
    ]  # fmt: skip
    return sorted((pair for pair in scored if pair[1] > 0), key=lambda pair: -pair[1])[:LIMIT]


def _lists(found: bm25.SparseTerms) -> tuple[list[int], list[float]]:
    return found.ids, found.weights


@pytest.fixture(params=["memory", "edge", "edge, with a graph"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "memory":
        return MemoryStore(dimensions=DIMENSIONS)
    return QdrantEdgeStore(tmp_path / "passages", dimensions=DIMENSIONS, rebuild_after=1)


async def test_filtered_search_equals_brute_force(store: Store, request: pytest.FixtureRequest) -> None:
    pick = random.Random(11)
    stored = passages(pick)
    terms = terms_of(stored)
    await store.open()
    try:
        await store.upsert(stored)
        if "graph" in request.node.callspec.id:
            await store.optimize()
        sizes = set()
        for number in range(ROUNDS):
            where, query, text = scope(pick), encoding(10_000 + number).dense, " ".join(pick.sample(WORDS, 2))
            for found, truth in (
                (await store.search_dense(query, where, LIMIT), dense_truth(stored, query, where)),
                (await store.search_sparse(text, where, LIMIT), sparse_truth(stored, terms, text, where)),
            ):
                assert [hit.score for hit in found] == pytest.approx([score for _, score in truth], rel=1e-4, abs=1e-5)
                by_id = dict(truth)
                worst = truth[-1][1] if truth else 0.0
                for hit in found:  # of equal scores at the end of the list, either may be shown
                    assert hit.passage_id in by_id or hit.score == pytest.approx(worst, rel=1e-4), where
            inside = sum(accepts(where, one.passage) for one in stored)
            assert await store.count(where) == inside
            sizes.add(min(inside, 100) // 10)
        assert len(sizes) >= 6  # from nothing to nearly all
    finally:
        await store.close()
