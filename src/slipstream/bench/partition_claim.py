"""R6: a tenant's searches cost what its own share costs, and another tenant's flood leaves them alone."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path

from slipstream.bench.claims import Bar, Claim, Finding, Say, Side
from slipstream.bench.index_bench import fill, hybrid_ms, opened, p99, recall
from slipstream.bench.synthetic import PART, WHOLE, SyntheticCorpus, SyntheticQuery
from slipstream.settings import Settings
from slipstream.stores.qdrant_edge import QdrantEdgeStore
from slipstream.types import Scope

PASSAGES = 30_000
_ROUNDS, _QUERIES, _EXACT_QUERIES, _FLOOD = 5, 300, 50, 16


async def measure(settings: Settings, say: Say) -> Finding:
    corpus = SyntheticCorpus()
    queries = corpus.queries(1, _QUERIES)
    part, whole = Scope(PART), Scope(WHOLE)
    took: dict[str, list[list[float]]] = {"part": [], "whole": [], "flooded": []}
    with tempfile.TemporaryDirectory(prefix="slipstream-partition-") as directory:
        async with opened(Path(directory)) as store:
            await fill(store, corpus, PASSAGES, say)
            for scope in (part, whole):
                await hybrid_ms(store, queries, scope, 1)
            for turn in range(_ROUNDS):
                say(f"one tenant, the whole, one tenant beside a flood: round {turn + 1} of {_ROUNDS}")
                took["part"].append(await hybrid_ms(store, queries, part, 1))
                took["whole"].append(await hybrid_ms(store, queries, whole, 1))
                took["flooded"].append(await _beside_a_flood(store, queries))
            found = await recall(store, queries[:_EXACT_QUERIES], part)
            inside = await store.count(part)
    return _finding(took, found, inside)


async def _beside_a_flood(store: QdrantEdgeStore, queries: Sequence[SyntheticQuery]) -> list[float]:
    """The part's searches while so many users of the whole search without a pause."""

    async def flood(user: int) -> None:
        for n in itertools.count(user):
            await hybrid_ms(store, (queries[n % len(queries)],), Scope(WHOLE), 1)

    users = [asyncio.create_task(flood(user)) for user in range(_FLOOD)]
    try:
        return await hybrid_ms(store, queries, Scope(PART), 1)
    finally:
        for user in users:
            user.cancel()
        await asyncio.gather(*users, return_exceptions=True)


def _finding(took: dict[str, list[list[float]]], found: float, inside: int) -> Finding:
    sides = (
        Side(f"p50, a tenant with {inside:,} of {PASSAGES:,}", "ms", tuple(map(_p50, took["part"]))),
        Side("p50, the tenant with the rest", "ms", tuple(map(_p50, took["whole"]))),
        Side("p99, the small tenant alone", "ms", tuple(map(p99, took["part"]))),
        Side(f"p99, the small tenant beside {_FLOOD} flooding users", "ms", tuple(map(p99, took["flooded"]))),
        Side(f"p50, the small tenant beside {_FLOOD} flooding users", "ms", tuple(map(_p50, took["flooded"]))),
    )
    return Finding(
        sides,
        (
            Bar("small tenant's p50 as a share of the whole's", sides[0].median / sides[1].median, "", "<=", 1.0),
            Bar("small tenant's p99 beside the flood, to alone", sides[3].median / sides[2].median, "", "<=", 1.5),
            Bar("small tenant's recall@10", found, "", ">=", 0.99),
        ),
        "hybrid searches of the store itself; a server also admits tenants in turn",
    )


def _p50(took: Sequence[float]) -> float:
    return sorted(took)[len(took) // 2]


CLAIM = Claim(
    "R6", "A tenant with 1 % of the data is searched as fast as the whole or faster, whatever others do.", measure, 4
)
