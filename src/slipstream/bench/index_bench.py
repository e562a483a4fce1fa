"""The embedded store at a size: filled with the synthetic corpus, searched by several users, weighed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from slipstream.bench.claims import Say, percentile
from slipstream.bench.synthetic import DIMENSIONS, SyntheticCorpus, SyntheticQuery
from slipstream.stores.index import SearchSpec
from slipstream.stores.qdrant_edge import QdrantEdgeStore
from slipstream.types import Scope

LIMIT = 50
"""Hits a leg gives to fusion, as in the product."""
TOP = 10
USERS = 4


@dataclass(frozen=True, slots=True)
class Weight:
    """Bytes a passage."""

    memory: float
    """Resident in the process that holds the store; pages of its files count as far as they are mapped and touched."""
    disk: float


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[QdrantEdgeStore]:
    store = QdrantEdgeStore(directory, dimensions=DIMENSIONS, encoder="synthetic")
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def fill(store: QdrantEdgeStore, corpus: SyntheticCorpus, size: int, say: Say) -> None:
    """Up to `size` passages, on from those that are there (an interrupted filling goes on), then optimized."""
    present = (await store.info()).passages // 1_000 * 1_000
    began = time.perf_counter()
    for number, lot in enumerate(corpus.passages(present, size)):
        await store.upsert(lot)
        done = (number + 1) * 1_000
        left_s = (time.perf_counter() - began) / done * (size - present - done)
        say(f"writing passages: {present + done:,} of {size:,}, {left_s / 60:.0f} min left")
    say(f"building the index of {size:,} passages")
    await store.optimize()


async def hybrid_ms(store: QdrantEdgeStore, queries: Sequence[SyntheticQuery], scope: Scope, users: int) -> list[float]:
    """Milliseconds of each query, dense and BM25 at once, so many users at once."""
    rest, took = iter(queries), list[float]()

    async def user() -> None:
        for query in rest:
            began = time.perf_counter()
            await asyncio.gather(
                store.search_dense(query.vector, scope, LIMIT), store.search_sparse(query.text, scope, LIMIT)
            )
            took.append(1e3 * (time.perf_counter() - began))

    await asyncio.gather(*(user() for _ in range(users)))
    return took


async def recall(store: QdrantEdgeStore, queries: Sequence[SyntheticQuery], scope: Scope) -> float:
    """Mean share of the ten nearest by exact search that the store's own search finds among its first ten."""
    shares = []
    for query in queries:
        found = await store.search_dense(query.vector, scope, LIMIT)
        truth = await store.search_dense_with(query.vector, scope, TOP, SearchSpec(exact=True))
        nearest = {hit.passage_id for hit in truth}
        shares.append(len(nearest & {hit.passage_id for hit in found[:TOP]}) / max(1, len(nearest)))
    return sum(shares) / len(shares)


async def weight(store: QdrantEdgeStore) -> Weight:
    info = await store.info()
    hosts = [child for child in psutil.Process().children() if "edge_host" in " ".join(child.cmdline())]
    memory = sum(host.memory_info().rss for host in hosts)
    return Weight(memory / info.passages, info.bytes_on_disk / info.passages)


def p99(took: Sequence[float]) -> float:
    return percentile(took, 99)
