"""Brute force over a scope's vectors on this side: the truth that an index's recall is measured against."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from slipstream.call import Clock
from slipstream.runtime.workers import Worker
from slipstream.stores.milvus_reads import MilvusReads, Row
from slipstream.types import Hit, Matrix, Vector

_PAGE = 2_000
_KEPT_BYTES = 256 << 20
_GOOD_FOR_S = 60.0


@dataclass(frozen=True, slots=True)
class _Page:
    ids: list[str]
    vectors: Matrix


@dataclass(frozen=True, slots=True)
class _Kept:
    pages: list[_Page]
    at_s: float

    @property
    def nbytes(self) -> int:
        return sum(page.vectors.nbytes for page in self.pages)


class ExactSearch:
    """Milvus's indexes have no exact search of their own. Vectors are kept for the next question while those of all
    scopes fit into 256 MiB and nothing is written; a larger scope is read anew for each."""

    def __init__(self, reads: MilvusReads, collection: str, worker: Worker, clock: Clock = time.monotonic) -> None:
        self._reads = reads
        self._collection = collection
        self._worker = worker
        self._clock = clock
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._writes = 0
        self._turn = asyncio.Lock()

    def forget(self) -> None:
        """To be called before and after every write."""
        self._writes += 1
        self._kept.clear()

    async def search(self, vector: Vector, expression: str, limit: int) -> list[Hit]:
        async with self._turn:
            kept = self._kept.get(expression)
            if kept is None or self._clock() - kept.at_s > _GOOD_FOR_S:
                return await self._read(vector, expression, limit)
        return await self._worker.run(_best, vector, kept.pages, limit)

    async def _read(self, vector: Vector, expression: str, limit: int) -> list[Hit]:
        began, writes = self._clock(), self._writes
        hits: list[Hit] = []
        pages: list[_Page] | None = []
        async for rows in self._reads.pages(self._collection, expression, ["id", "dense"], limit=_PAGE):
            page = await self._worker.run(_page, rows)
            found = await self._worker.run(_best, vector, [page], limit)
            hits = _ordered([*hits, *found], limit)
            if pages is not None:
                pages.append(page)
                if sum(kept.vectors.nbytes for kept in pages) > _KEPT_BYTES:
                    pages = None
        if pages is not None and writes == self._writes:
            self._kept[expression] = _Kept(pages, began)
            while sum(kept.nbytes for kept in self._kept.values()) > _KEPT_BYTES:
                self._kept.popitem(last=False)
        return hits


def _page(rows: list[Row]) -> _Page:
    return _Page([row["id"] for row in rows], np.array([row["dense"] for row in rows], np.float32))


def _best(vector: Vector, pages: list[_Page], limit: int) -> list[Hit]:
    hits: list[Hit] = []
    for page in pages:
        scores = page.vectors @ vector
        best = np.argpartition(-scores, limit - 1)[:limit] if limit < len(scores) else range(len(scores))
        hits += [Hit(page.ids[int(n)], float(scores[n])) for n in best]
    return _ordered(hits, limit)


def _ordered(hits: list[Hit], limit: int) -> list[Hit]:
    return sorted(hits, key=lambda hit: (-hit.score, hit.passage_id))[:limit]
