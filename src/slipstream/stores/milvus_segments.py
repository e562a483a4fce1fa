"""What a Milvus store knows of its segments: sizes, merging, and how widely a clustered index must look."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from typing import TypeVar

from slipstream.call import Clock
from slipstream.errors import Unavailable
from slipstream.stores.base import StoreInfo
from slipstream.stores.index import IndexSpec, SearchSpec
from slipstream.stores.milvus_collections import MilvusCollections
from slipstream.stores.milvus_connection import MilvusConnection
from slipstream.stores.milvus_filters import ALWAYS
from slipstream.stores.milvus_reads import MilvusReads

T = TypeVar("T")

log = logging.getLogger(__name__)

_LARGE_SHARE = 0.5
"""Of the collection: a scope this large fills the clusters that its neighbours are in."""
_SIZES_KEPT = 4_096
_GOOD_FOR_S = 60.0
_LOOK_EVERY_S = 0.5
_MERGE_S = 3_600.0


@dataclass(frozen=True, slots=True)
class _Size:
    passages: int
    at_s: float


class MilvusSegments:
    def __init__(
        self, connection: MilvusConnection, collections: MilvusCollections, reads: MilvusReads, clock: Clock
    ) -> None:
        self._connection = connection
        self._collections = collections
        self._reads = reads
        self._clock = clock
        self._sizes: OrderedDict[str, _Size] = OrderedDict()

    async def widened(self, search: SearchSpec, index: IndexSpec, inside: str) -> SearchSpec:
        """`nprobe` for a scope: a small one is spread thinly over the clusters, so as many more are looked at.

        A graph needs nothing of the kind: Milvus scans by itself when a filter leaves little.
        """
        if index.kind not in {"ivf_flat", "ivf_pq"}:
            return search
        everything, scope = await self._size(ALWAYS), await self._size(inside)
        share = scope / max(1, everything)
        if share >= _LARGE_SHARE:
            return search
        return replace(search, nprobe=min(index.nlist, int(search.nprobe / max(share, 1e-6)) + 1))

    async def info(self, *, stale: bool) -> StoreInfo:
        passages = await self._reads.count(self._collections.passages, ALWAYS)
        described = await self._collections.described_index(self._collections.behind)
        name = self._collections.behind
        segments = await self._if_offered(
            self._connection.read(lambda client, s: client.list_persistent_segments(name, timeout=s)), []
        )
        indexed = int(described.get("indexed_rows") or 0)  # counts rows deleted since
        return StoreInfo(passages, min(indexed, passages), max(1, len(segments)), 0, stale)

    async def merge(self) -> None:
        """Raises Unavailable when a merge does not end."""
        for name in (self._collections.behind, self._collections.tokens):
            await self._collections.flush(name)
            job = await self._if_offered(self._compact(name), -1)
            if job != -1:
                await self._merged(job)

    async def _compact(self, name: str) -> int:
        return int(await self._connection.write(lambda client, s: client.compact(name, timeout=s)))

    async def _merged(self, job: int) -> None:
        waited_s = 0.0
        while True:
            state = await self._connection.read(lambda client, s: client.get_compaction_state(job, timeout=s))
            if state != "Executing":
                log.info("Milvus merged segments: %s.", state)
                return
            if waited_s > _MERGE_S:
                raise Unavailable("Milvus does not finish merging segments; its log has the cause.")
            await self._connection.sleep(_LOOK_EVERY_S)
            waited_s += _LOOK_EVERY_S

    async def _size(self, inside: str) -> int:
        known = self._sizes.get(inside)
        if known is not None and self._clock() - known.at_s < _GOOD_FOR_S:
            self._sizes.move_to_end(inside)
            return known.passages
        at_s = self._clock()
        passages = await self._reads.count(self._collections.passages, inside)
        self._sizes[inside] = _Size(passages, at_s)
        while len(self._sizes) > _SIZES_KEPT:
            self._sizes.popitem(last=False)
        return passages

    async def _if_offered(self, asking: Awaitable[T], otherwise: T) -> T:
        """Milvus Lite lacks what tells of segments and merges them."""
        try:
            return await asking
        except Unavailable:
            if not self._collections.lite:
                raise
            return otherwise
