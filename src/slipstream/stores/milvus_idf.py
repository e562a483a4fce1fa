"""How many passages of a tenant hold a term, counted by Milvus and remembered for a short while."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass

from slipstream.call import Clock
from slipstream.stores import bm25
from slipstream.stores.bm25 import SparseTerms
from slipstream.stores.milvus_filters import quoted
from slipstream.stores.milvus_reads import MilvusReads
from slipstream.stores.milvus_rows import term_key

_KEPT = 65_536
_GOOD_FOR_S = 30.0
"""Writes of this process are counted at once; those of others after so long at the latest."""
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class _Count:
    passages: int
    at_s: float


class TermCounts:
    """Counts are the tenant's own, so nobody's documents move another's scores."""

    def __init__(self, reads: MilvusReads, collection: str, clock: Clock = time.monotonic) -> None:
        self._reads = reads
        self._collection = collection
        self._clock = clock
        self._kept: OrderedDict[tuple[str, int | None], _Count] = OrderedDict()
        self._writes = 0
        self._slots = asyncio.Semaphore(_AT_ONCE)

    def forget(self) -> None:
        """To be called before and after every write."""
        self._writes += 1
        self._kept.clear()

    async def weighted(self, terms: SparseTerms, tenant: str) -> dict[int, float]:
        """The question's terms that the tenant's passages hold, times their idf: a sparse vector."""
        total, *containing = await asyncio.gather(*(self._count(tenant, term) for term in (None, *terms.ids)))
        total = max(total, *containing)  # a write between two counts must not make an idf negative
        return {
            term_key(term): weight * bm25.idf(count, total)
            for term, weight, count in zip(terms.ids, terms.weights, containing, strict=True)
            if count
        }

    async def _count(self, tenant: str, term: int | None) -> int:
        known = self._kept.get((tenant, term))
        if known is not None and self._clock() - known.at_s < _GOOD_FOR_S:
            self._kept.move_to_end((tenant, term))
            return known.passages
        began, writes = self._clock(), self._writes
        inside = f"tenant == {quoted(tenant)}"
        async with self._slots:
            holding = "" if term is None else f" and array_contains(terms, {term_key(term)})"
            passages = await self._reads.count(self._collection, inside + holding)
        if writes == self._writes:
            self._kept[tenant, term] = _Count(passages, began)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return passages
