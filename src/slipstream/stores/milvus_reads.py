"""Queries over one Milvus store's collections, each as fresh as what this process has written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

from slipstream.stores.milvus_connection import MilvusConnection
from slipstream.stores.milvus_filters import NEVER, quoted
from slipstream.types import Hit

Row: TypeAlias = Any
"""A mapping from field to value."""
Consistency: TypeAlias = Literal["session", "strong"]

_MAX_LIMIT = 16_384
_WAIT_FOR_NOTHING = 1


class MilvusReads:
    """ "Session" reads see every write of this process at once and wait for nothing else; "Strong" ones wait for the
    server's next time tick (some 200 ms), and see the writes of others too."""

    def __init__(self, connection: MilvusConnection, consistency: Consistency) -> None:
        self._connection = connection
        self._strong = consistency == "strong"
        self._deleting = 0
        self._unsettled = False

    async def search(
        self, name: str, field: str, query: Any, expression: str, limit: int, params: dict[str, Any]
    ) -> list[Hit]:
        found = await self._connection.read(
            lambda client, s: client.search(
                name,
                [query],
                filter=expression,
                limit=min(limit, _MAX_LIMIT),
                anns_field=field,
                search_params=params,
                output_fields=[],
                consistency_level=self._level(),
                timeout=s,
            )
        )
        hits = [Hit(hit["id"], float(hit["distance"])) for hit in found[0]]
        return sorted(hits, key=lambda hit: (-hit.score, hit.passage_id))

    async def query(self, name: str, expression: str, fields: Sequence[str]) -> list[Row]:
        rows = await self._connection.read(
            lambda client, s: client.query(
                name, expression, output_fields=list(fields), consistency_level=self._level(), timeout=s
            )
        )
        return list(rows)

    async def count(self, name: str, expression: str) -> int:
        (row,) = await self.query(name, expression, ["count(*)"])
        return int(row["count(*)"])

    async def page(self, name: str, expression: str, fields: Sequence[str], *, after: str, limit: int) -> list[Row]:
        """Rows behind an id, ascending; sees what is settled. Every segment gives its first, and the server
        ends where one has given all it was asked for: a page may be short without being the last."""
        rows = await self._connection.write(
            lambda client, s: client.query(
                name,
                f"({expression}) and id > {quoted(after)}",
                output_fields=list(fields),
                limit=limit,
                iterator="True",
                reduce_stop_for_best="True",
                guarantee_timestamp=_WAIT_FOR_NOTHING,  # the client sends no consistency level with an iterator
                timeout=s,
            )
        )
        return sorted(rows, key=lambda row: str(row["id"]))[:limit]

    async def pages(
        self, name: str, expression: str, fields: Sequence[str], *, after: str = "", limit: int
    ) -> AsyncIterator[list[Row]]:
        await self.settle(name)
        while True:
            rows = await self.page(name, expression, fields, after=after, limit=limit)
            if not rows:
                return
            yield rows
            after = rows[-1]["id"]

    async def settle(self, *names: str) -> None:
        """Returns when everything written so far is seen by reads that wait for nothing."""
        await asyncio.gather(*(self._settle(name) for name in names))

    async def _settle(self, name: str) -> None:
        await self._connection.write(
            lambda client, s: client.query(
                name, NEVER, output_fields=["id"], limit=1, consistency_level="Strong", timeout=s
            )
        )

    @contextmanager
    def deleting(self) -> Iterator[None]:
        """A delete gives the client no time to wait for, and clears the last one: until `settle`, reads are strong.

        To be left after `settle`. When the block raises, reads stay strong until a later one does not.
        """
        self._deleting += 1
        self._unsettled = True
        done = False
        try:
            yield
            done = True
        finally:
            self._deleting -= 1
            if done and not self._deleting:
                self._unsettled = False

    def _level(self) -> str:
        return "Strong" if self._strong or self._unsettled else "Session"
