"""Prepared documents → store and ledger, in an order that a kill at any moment leaves repairable."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import anyio

from slipstream.ingest.indexing import index_passages
from slipstream.ingest.ledger import DocumentRecord, Ledger
from slipstream.ingest.prepare import Prepared
from slipstream.ingest.quota import Quota
from slipstream.ingest.report import DocumentResult
from slipstream.ingest.versions import DocumentKey
from slipstream.models.base import Encoder
from slipstream.stores.base import Store
from slipstream.types import IndexedPassage, Passage, Scope

ENCODE_TOKENS = 8_192
"""Per call of the encoder, which sorts them by length and lets queries in between its passes."""
OnChange: TypeAlias = Callable[[str, str | None], None]
"""Told of a tenant's collection, or with None of all of them, when a change is searchable."""
_UPSERT_PASSAGES = 64
"""Per durable write: token vectors weigh some 300 kB a passage."""


class Writer:
    """Callers hold the documents' locks. Raises what the store, the encoder and the ledger raise."""

    def __init__(
        self,
        store: Store,
        encoder: Encoder,
        ledger: Ledger,
        quota: Quota,
        clock: Callable[[], float],
        on_change: OnChange = lambda tenant, collection: None,
    ) -> None:
        self._store = store
        self._encoder = encoder
        self._ledger = ledger
        self._quota = quota
        self._clock = clock
        self._on_change = on_change

    async def write(self, documents: Sequence[Prepared]) -> list[DocumentResult]:
        """Makes these versions the current ones: searchable and durable on return. All or none of them.

        The new passages are in before the old ones go, so a search finds one version or the other.
        Raises Forbidden or TooLarge when the tenant may not keep so much.
        """
        keys = [document.key for document in documents]
        before = await self._ledger.get_many(keys)
        async with self._quota.hold(documents, before):
            return await self._write(documents, keys, before)

    async def _write(
        self, documents: Sequence[Prepared], keys: Sequence[DocumentKey], before: Sequence[DocumentRecord | None]
    ) -> list[DocumentResult]:
        await self._ledger.begin(keys, [document.version for document in documents])
        try:
            await self._upsert(passage for document in documents for passage in document.passages())
            records = [document.record(self._clock()) for document in documents]
            await self._switch(records, before)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._undo(keys)
            raise
        finally:
            for key in keys:
                self._on_change(key.tenant, key.collection)
        return [
            DocumentResult(record, "replaced" if old and old.version else "created", document.document.warnings)
            for record, old, document in zip(records, before, documents, strict=True)
        ]

    async def delete(self, key: DocumentKey) -> None:
        await self._ledger.begin_delete(key)
        await self._store.delete_document(key.tenant, key.collection, key.id)
        self._on_change(key.tenant, key.collection)
        await self._ledger.forget(key)

    async def delete_tenant(self, tenant: str) -> None:
        """Everything of a tenant; callers hold the tenant. A kill at any moment leaves what `recover` completes."""
        await self._ledger.begin_delete_tenant(tenant)
        await self._store.delete_scope(Scope(tenant))
        self._on_change(tenant, None)
        await self._ledger.forget_tenant(tenant)

    async def recover(self) -> None:
        """Undoes or completes whatever a killed process left half-way."""
        for tenant in await self._ledger.emptying():
            await self.delete_tenant(tenant)
        for record in await self._ledger.unfinished():
            await self._repair(record)

    async def _upsert(self, passages: Iterator[Passage]) -> None:
        held: list[IndexedPassage] = []
        for batch in _batches(passages):
            held += await index_passages(batch, self._encoder)
            if len(held) >= _UPSERT_PASSAGES:
                await self._store.upsert(held)
                held = []
        if held:
            await self._store.upsert(held)

    async def _switch(self, records: Sequence[DocumentRecord], before: Sequence[DocumentRecord | None]) -> None:
        replacing = [record for record, old in zip(records, before, strict=True) if old is not None]
        fresh = [record for record, old in zip(records, before, strict=True) if old is None]
        await self._ledger.accept([*fresh, *(replace(record, state="switching") for record in replacing)])
        for record in replacing:
            await self._drop_others(record)
        if replacing:
            await self._ledger.finish([record.key for record in replacing])

    async def _drop_others(self, record: DocumentRecord) -> None:
        await self._store.delete_document(record.tenant, record.collection, record.id, except_version=record.version)

    async def _undo(self, keys: Sequence[DocumentKey]) -> None:
        for record in await self._ledger.get_many(keys):
            if record is not None and record.state != "ready":
                await self._repair(record)

    async def _repair(self, record: DocumentRecord) -> None:
        """`version` holds in writing and in switching alike: all other passages are strays."""
        if record.state == "deleting" or not record.version:
            await self.delete(record.key)
        else:
            await self._drop_others(record)
            await self._ledger.finish([record.key])


def _batches(passages: Iterator[Passage]) -> Iterator[list[Passage]]:
    batch: list[Passage] = []
    tokens = 0
    for passage in passages:
        more = _estimated_tokens(passage)
        if batch and tokens + more > ENCODE_TOKENS:
            yield batch
            batch, tokens = [], 0
        batch.append(passage)
        tokens += more
    if batch:
        yield batch


def _estimated_tokens(passage: Passage) -> int:
    """A Chinese character is three bytes and most of a token; an English token is four bytes or more."""
    return len(passage.text.encode()) // 3
