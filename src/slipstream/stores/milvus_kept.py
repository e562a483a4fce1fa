"""What belongs to a collection as a whole, kept in Milvus beside the token vectors so that every server finds it."""

from __future__ import annotations

import json
from dataclasses import asdict, fields

from slipstream.errors import DataError
from slipstream.stores.index import SearchSpec
from slipstream.stores.milvus_filters import listed
from slipstream.stores.milvus_reads import MilvusReads
from slipstream.stores.milvus_writes import MilvusWrites

_ENCODER, _SEARCH = "encoder", "search"
"""Ids of records that belong to no passage: the others begin with its id."""


class KeptNotes:
    def __init__(self, reads: MilvusReads, writes: MilvusWrites, collection: str, encoder: str) -> None:
        self._reads = reads
        self._writes = writes
        self._collection = collection
        self._encoder = encoder

    async def read(self) -> SearchSpec:
        """What searches were told to spend: the defaults when nothing was.

        Raises DataError when the passages were encoded by another encoder.
        """
        await self._reads.settle(self._collection)
        rows = await self._reads.query(self._collection, f"id in {listed([_ENCODER, _SEARCH])}", ["id", "record"])
        notes = {row["id"]: row["record"] for row in rows}
        made_by = notes.get(_ENCODER, "")
        if made_by and self._encoder and made_by != self._encoder:
            raise DataError(
                f"Milvus's collection was made with the encoder {made_by}, and {self._encoder} is configured. Use "
                "the former, or another milvus.collection and ingest again."
            )
        if self._encoder and not made_by:
            await self._writes.keep(_ENCODER, self._encoder)
        said = json.loads(notes.get(_SEARCH, "{}"))
        return SearchSpec(**{field.name: said[field.name] for field in fields(SearchSpec) if field.name in said})

    async def spend(self, search: SearchSpec) -> None:
        await self._writes.keep(_SEARCH, json.dumps(asdict(search)))
