"""Copies everything from one store to another, then compares the two."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from uuid import UUID

from slipstream.call import Clock
from slipstream.stores.base import Store
from slipstream.stores.migration_ledger import MigrationLedger
from slipstream.types import Hit, IndexedPassage, Scope

_BATCH = 256
_TOP = 10
_QUESTION_CHARACTERS = 120
_TIE = 1e-3
"""Which of several passages that score like the last one is shown is chance. Relative."""


@dataclass(frozen=True, slots=True)
class Copied:
    """How far a copy is."""

    passages: int
    """Written so far, earlier runs included."""
    this_run: int
    total: int
    elapsed_s: float
    tenants: tuple[str, ...] = ()
    """Whose passages were written; told at the end."""


@dataclass(frozen=True, slots=True)
class TenantCount:
    tenant: str
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """The two stores after a copy."""

    tenants: tuple[TenantCount, ...]
    searches: int
    """Sampled passages whose vector and beginning were searched for in both."""
    dense_overlap: float
    """Mean share of the source's ten best that the target's ten best hold; 1.0 when nothing was searched."""
    sparse_overlap: float

    @property
    def differing(self) -> tuple[TenantCount, ...]:
        return tuple(count for count in self.tenants if count.source != count.target)

    def holds(self, least_overlap: float) -> bool:
        return not self.differing and min(self.dense_overlap, self.sparse_overlap) >= least_overlap


async def copy_all(
    source: Store,
    target: Store,
    ledger: MigrationLedger,
    *,
    restart: bool = False,
    on_progress: Callable[[Copied], None] = lambda _: None,
    clock: Clock = time.monotonic,
) -> Copied:
    """Writes every passage; what an earlier run wrote is left out unless `restart`.

    Safe to kill at any moment and to run again: passages are written by id, and a batch counts once it is durable.
    """
    began = clock()
    progress = await ledger.open()
    if restart:
        await ledger.clear()
        progress = type(progress)()
    tenants = Counter(progress.tenants)
    earlier, total = progress.passages, (await source.info()).passages

    def copied() -> Copied:
        written = tenants.total()
        return Copied(written, written - earlier, max(total, written), clock() - began)

    on_progress(copied())
    async for batch in source.export(progress.after_id, _BATCH):
        await target.upsert(batch)
        await ledger.advance([indexed.passage for indexed in batch])
        tenants.update(indexed.passage.tenant for indexed in batch)
        on_progress(copied())
    return replace(copied(), tenants=tuple(sorted(tenants)))


async def compare(
    source: Store, target: Store, tenants: Sequence[str], *, samples: int = 50, seed: int = 0
) -> Comparison:
    """Counts of each tenant, and the ten best of sampled searches, in both stores."""
    counts = [
        TenantCount(tenant, await source.count(Scope(tenant)), await target.count(Scope(tenant))) for tenant in tenants
    ]
    dense, sparse = [], []
    pick = Random(seed)
    for _ in range(samples):
        indexed = await _at_random(source, pick)
        if indexed is None:
            break
        scope, text = Scope(indexed.passage.tenant), indexed.passage.text[:_QUESTION_CHARACTERS]
        vector = indexed.encoding.dense
        found = [await store.search_dense(vector, scope, _TOP) for store in (source, target)]
        dense.append(_overlap(*found))
        found = [await store.search_sparse(text, scope, _TOP) for store in (source, target)]
        sparse.append(_overlap(*found))
    return Comparison(tuple(counts), len(dense), _mean(dense), _mean(sparse))


async def _at_random(store: Store, pick: Random) -> IndexedPassage | None:
    """Ids are hashes, so the next one after a random number is nearly as good as a random passage."""
    for after in (str(UUID(int=pick.getrandbits(128))), None):
        pages = store.export(after, 1)
        batch = await anext(pages, None)
        if isinstance(pages, AsyncGenerator):
            await pages.aclose()
        if batch:
            return batch[0]
    return None


def _overlap(source: list[Hit], target: list[Hit]) -> float:
    if not source:
        return 1.0 if not target else 0.0
    known = {hit.passage_id for hit in source}
    last = source[-1].score
    tied = abs(last) * _TIE
    agreeing = sum(hit.passage_id in known or abs(hit.score - last) <= tied for hit in target[: len(source)])
    return agreeing / len(source)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 1.0
