"""Writes to a Milvus store's collections, one after another, and to the copy that a reindex is making."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from slipstream.errors import DataError
from slipstream.stores.milvus_collections import MilvusCollections
from slipstream.stores.milvus_connection import MilvusConnection
from slipstream.stores.milvus_filters import listed
from slipstream.stores.milvus_reads import MilvusReads
from slipstream.stores.milvus_tokens import TokenPlace, TokenRecord, TokenRecords

_DELETED_AT_ONCE = 4_096


class MilvusWrites:
    """The lock orders writes, since what the client waits for in later reads is the time of the last one."""

    def __init__(
        self,
        connection: MilvusConnection,
        collections: MilvusCollections,
        reads: MilvusReads,
        records: TokenRecords,
        *,
        changed: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._collections = collections
        self._reads = reads
        self._records = records
        self._changed = changed
        self.lock = asyncio.Lock()
        self.replaces = True
        """Whether the server's upsert finds the partition of a tenant; before 2.3.10 it looks in the wrong one."""
        self.copy = ""
        """The collection that a reindex is filling."""
        self.number = 0
        """Counts writes."""
        self.copied_to = ""
        """Passages up to this id are in it."""

    async def upsert(
        self, tenants: Sequence[str], rows: Sequence[dict[str, Any]], tokens: list[list[TokenRecord]]
    ) -> None:
        """Token vectors first: those that a passage names must be there. Ids are distinct."""
        async with self.lock:
            self._begin()
            records = [
                {"id": record.id, "tenant": tenant, "record": record.text, "place": [0.0, 0.0]}
                for tenant, parts in zip(tenants, tokens, strict=True)
                for record in parts
            ]
            if records:
                await self._put(self._collections.tokens, records)
            await self._put(self._collections.passages, rows)
            mirrored = [row for row in rows if self.copy and row["id"] <= self.copied_to]
            if mirrored:
                await self._put(self.copy, mirrored)
            self._changed()

    async def delete(self, places: Sequence[TokenPlace]) -> None:
        """Passages first: a reader must not find one whose token vectors are gone. To be settled by the caller."""
        async with self.lock:
            self._begin()
            ids = [place.passage_id for place in places]
            await self._remove(self._collections.passages, ids)
            if self.copy:
                await self._remove(self.copy, ids)
            await self._remove(self._collections.tokens, [i for place in places for i in self._records.ids(place)])
            self._changed()

    async def keep(self, record_id: str, text: str) -> None:
        """A record that belongs to no passage and no tenant."""
        async with self.lock:
            row = {"id": record_id, "tenant": "", "record": text, "place": [0.0, 0.0]}
            await self._put(self._collections.tokens, [row])

    def _begin(self) -> None:
        self.number += 1
        self._changed()

    async def insert(self, name: str, rows: Sequence[dict[str, Any]]) -> None:
        await self._connection.write(lambda client, s: client.insert(name, list(rows), timeout=s))

    async def _put(self, name: str, rows: Sequence[dict[str, Any]]) -> None:
        try:
            if self.replaces:
                await self._connection.write(lambda client, s: client.upsert(name, list(rows), timeout=s))
            else:
                await self._connection.write(lambda client, s: self._replace(client, s, name, rows))
        except (TypeError, ValueError) as error:
            raise DataError(f"Milvus's client cannot send a passage: {error}") from None

    async def _replace(self, client: Any, seconds: float, name: str, rows: Sequence[dict[str, Any]]) -> None:
        """Tried again as a whole, and never by the client itself: an insert that was thought lost may have happened.

        Whether the ids are there is not asked: the answer would wait for the time tick of the last write.
        """
        with self._reads.deleting():  # until the insert's own time stands for both
            await client.delete(name, filter=f"id in {listed(row['id'] for row in rows)}", timeout=seconds)
            await client.insert(name, list(rows), retry_times=0)

    async def _remove(self, name: str, ids: Iterable[str]) -> None:
        known = list(ids)
        for start in range(0, len(known), _DELETED_AT_ONCE):
            await self._remove_some(name, known[start : start + _DELETED_AT_ONCE])

    async def _remove_some(self, name: str, ids: Sequence[str]) -> None:
        inside = f"id in {listed(ids)}"
        await self._connection.write(lambda client, s: client.delete(name, filter=inside, timeout=s))
