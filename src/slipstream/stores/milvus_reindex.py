"""Another dense index for a Milvus store: a second collection is filled beside the first and takes its alias over."""

from __future__ import annotations

from slipstream.errors import Unavailable
from slipstream.stores.index import IndexSpec
from slipstream.stores.milvus_collections import MilvusCollections
from slipstream.stores.milvus_connection import MilvusConnection
from slipstream.stores.milvus_filters import ALWAYS
from slipstream.stores.milvus_reads import MilvusReads
from slipstream.stores.milvus_rows import PASSAGE_FIELDS
from slipstream.stores.milvus_writes import MilvusWrites

_PAGE = 500
_LOOK_EVERY_S = 0.5
_STALE_S = 120.0
"""Index building that shows no progress for so long has stopped."""


class MilvusReindex:
    """An index can be exchanged in place only while its collection is not searched. So this needs memory for both.

    The copy sees the writes of this process. Others that write to the same collection must not do so meanwhile.
    """

    def __init__(
        self,
        connection: MilvusConnection,
        collections: MilvusCollections,
        reads: MilvusReads,
        writes: MilvusWrites,
    ) -> None:
        self._connection = connection
        self._collections = collections
        self._reads = reads
        self._writes = writes

    async def run(self, index: IndexSpec) -> None:
        """Whatever it raises, the present collection goes on and the copy is gone."""
        old = self._collections.behind
        base, _, number = old.rpartition("_")
        new = f"{base}_{int(number) + 1}"
        await self._collections.drop(new)
        try:
            await self._collections.make_passages(new, index)
            await self._copy(new)
            await self._built(new)
            await self._collections.load(new)
            async with self._writes.lock:
                await self._reads.settle(new)
                await self._connection.write(
                    lambda client, s: client.alter_alias(new, self._collections.passages, timeout=s)
                )
                self._collections.behind = new
        finally:
            self._writes.copy = self._writes.copied_to = ""
            await self._collections.drop(old if self._collections.behind == new else new)

    async def _copy(self, new: str) -> None:
        """In the order of ids; a write behind the last id copied needs no second one, for its page is still to come."""
        fields = [*PASSAGE_FIELDS, "dense", *(["sparse", "terms"] if self._collections.sparse else [])]
        self._writes.copied_to, self._writes.copy = "", new
        settled = -1
        while True:
            async with self._writes.lock:
                if settled != self._writes.number:
                    await self._reads.settle(self._collections.passages)
                    settled = self._writes.number
                rows = await self._reads.page(
                    self._collections.passages, ALWAYS, fields, after=self._writes.copied_to, limit=_PAGE
                )
                if not rows:
                    self._writes.copied_to = "~"  # behind every id
                    return
                await self._writes.insert(new, [dict(row) for row in rows])
                self._writes.copied_to = rows[-1]["id"]

    async def _built(self, name: str) -> None:
        await self._collections.flush(name)
        waiting_s, last = 0.0, None
        while True:
            described = await self._collections.described_index(name)
            if described.get("state", "Finished") == "Failed":
                raise Unavailable(f"Milvus could not build the index of {name}; its log has the cause.")
            done = described.get("indexed_rows"), described.get("pending_index_rows")
            if not done[1] and described.get("indexed_rows") == described.get("total_rows"):
                return
            waiting_s, last = (waiting_s + _LOOK_EVERY_S if done == last else 0.0), done
            if waiting_s > _STALE_S:
                raise Unavailable(f"Milvus makes no progress in building the index of {name}; its log has the cause.")
            await self._connection.sleep(_LOOK_EVERY_S)
