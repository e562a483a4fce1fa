"""R2: HNSW finds what exact search finds, in time that hardly grows with the collection, tenants included."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from slipstream.bench.claims import Bar, Claim, Finding, Say, Side
from slipstream.bench.index_bench import USERS, Weight, fill, hybrid_ms, opened, p99, recall, weight
from slipstream.bench.synthetic import DIMENSIONS, PART, SMALL, WHOLE, SyntheticCorpus, SyntheticQuery
from slipstream.errors import ConfigError
from slipstream.settings import Settings
from slipstream.stores.qdrant_edge import QdrantEdgeStore
from slipstream.types import Scope

PASSAGES = 30_000
_MILLION = 1_000_000
_ROUNDS, _QUERIES, _EXACT_QUERIES, _WARM_UP = 3, 400, 50, 100
_QUERY_LOT = 1
"""Of the corpus: questions are about passages that every size holds."""
_HALF_FULL = 0.9
_PASSAGE_TOKENS = 200


@dataclass(frozen=True, slots=True)
class _AtSize:
    passages: int
    rounds: tuple[tuple[float, ...], ...]
    """Milliseconds of hybrid searches in the whole, several users at once."""
    recall: float
    weight: Weight

    @property
    def all_ms(self) -> list[float]:
        return [ms for took in self.rounds for ms in took]


async def measure(settings: Settings, say: Say) -> Finding:
    with tempfile.TemporaryDirectory(prefix="slipstream-index-") as directory:
        return await measure_index(Path(directory), PASSAGES, say)


async def measure_index(directory: Path, passages: int, say: Say) -> Finding:
    """What is in the directory is used, so that a long filling that was interrupted goes on.

    Raises ConfigError for a size that cannot be divided into the steps of growth.
    """
    if passages < 20_000 or passages % 10_000:
        raise ConfigError("Give a multiple of 10,000 passages, at least 20,000.")
    corpus = SyntheticCorpus()
    queries = corpus.queries(_QUERY_LOT, _QUERIES)
    async with opened(directory) as store:
        reached = [await _at_size(store, corpus, queries, size, say) for size in _steps(passages)]
        sizes = [size for size in reached if size is not None]
        small = await _tenant(store, queries, SMALL, say)
        part = await _tenant(store, queries, PART, say)
        say("a compressed copy: building")
        before = store.index
        await store.reindex(replace(before, quantization="scalar"))
        packed = await _measured(store, queries, say)
        await store.reindex(before)
    return _finding(sizes, small, part, packed)


def _steps(passages: int) -> list[int]:
    """Sizes on the way, each ten times the one before."""
    return [passages // part for part in ((100, 10, 1) if passages >= _MILLION else (10, 1))]


async def _at_size(
    store: QdrantEdgeStore, corpus: SyntheticCorpus, queries: Sequence[SyntheticQuery], size: int, say: Say
) -> _AtSize | None:
    """None for a smaller size than the store has already."""
    if (await store.info()).passages > size:
        return None
    await fill(store, corpus, size, say)
    return await _measured(store, queries, say)


async def _measured(store: QdrantEdgeStore, queries: Sequence[SyntheticQuery], say: Say) -> _AtSize:
    whole = Scope(WHOLE)
    say("searching")
    await hybrid_ms(store, queries[:_WARM_UP], whole, USERS)
    rounds = [tuple(await hybrid_ms(store, queries, whole, USERS)) for _ in range(_ROUNDS)]
    found = await recall(store, queries[:_EXACT_QUERIES], whole)
    return _AtSize((await store.info()).passages, tuple(rounds), found, await weight(store))


@dataclass(frozen=True, slots=True)
class _Tenant:
    passages: int
    took_ms: tuple[float, ...]
    recall: float


async def _tenant(store: QdrantEdgeStore, queries: Sequence[SyntheticQuery], tenant: str, say: Say) -> _Tenant:
    say(f"searching as the tenant {tenant}")
    scope = Scope(tenant)
    await hybrid_ms(store, queries[:_WARM_UP], scope, 1)
    took = await hybrid_ms(store, queries, scope, 1)
    return _Tenant(await store.count(scope), tuple(took), await recall(store, queries[:_EXACT_QUERIES], scope))


def _finding(sizes: Sequence[_AtSize], small: _Tenant, part: _Tenant, packed: _AtSize) -> Finding:
    largest = sizes[-1]
    sides = [Side(f"hybrid p99, {size.passages:,} passages", "ms", tuple(map(p99, size.rounds))) for size in sizes]
    sides += [
        Side(f"hybrid p99, a tenant of {small.passages:,}", "ms", (p99(small.took_ms),)),
        Side(f"hybrid p99, a tenant of {part.passages:,}", "ms", (p99(part.took_ms),)),
        Side("hybrid p99, scalar quantisation", "ms", tuple(map(p99, packed.rounds))),
    ]
    bars = [
        Bar(f"hybrid p99 at {largest.passages:,} passages, {USERS} at once", p99(largest.all_ms), "ms", "<=", 25.0),
        Bar("recall@10 against exact search", largest.recall, "", ">=", 0.95),
        Bar(f"a tenant of {small.passages:,}: p99", p99(small.took_ms), "ms", "<=", 5.0),
        Bar(f"a tenant of {small.passages:,}: recall@10", small.recall, "", ">=", 1.0),
        Bar(f"a tenant of {part.passages:,}: recall@10", part.recall, "", "report"),
        Bar("recall@10, scalar quantisation", packed.recall, "", "report"),
        *_weights("full vectors", largest.weight),
        *_weights("scalar quantisation", packed.weight),
    ]
    if len(sizes) > 1:
        grown = math.log(_p50(sizes[-1]) / _p50(sizes[0])) / math.log(sizes[-1].passages / sizes[0].passages)
        bars.append(Bar("time grows as passages to the power of", grown, "", "<=", _HALF_FULL))
    return Finding(tuple(sides), tuple(bars), _NOTE)


_NOTE = (
    f"synthetic corpus, {DIMENSIONS} dimensions, Zipf vocabulary; dense and BM25 at once, 50 hits each; token vectors "
    f"for late interaction come to {_PASSAGE_TOKENS * (DIMENSIONS + 12) / 1e3:.0f} kB more on disk a passage of "
    f"{_PASSAGE_TOKENS} tokens and are left out"
)


def _p50(size: _AtSize) -> float:
    ordered = sorted(size.all_ms)
    return ordered[len(ordered) // 2]


def _weights(name: str, weight: Weight) -> tuple[Bar, Bar]:
    return (
        Bar(f"memory a passage, {name}", weight.memory, "bytes", "report"),
        Bar(f"disk a passage, {name}", weight.disk, "bytes", "report"),
    )


CLAIM = Claim(
    "R2",
    "A graph over vectors finds what exact search finds, in a time that hardly grows with the collection.",
    measure,
    6,
)
