"""The path of a document: walk → read and parse → chunk → encode → store → ledger. The order, and nothing else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from slipstream.ingest.batch import BatchRun
from slipstream.ingest.chunking import ChunkLimits
from slipstream.ingest.ledger import DocumentRecord, Ledger, TenantUse
from slipstream.ingest.locks import DocumentLocks
from slipstream.ingest.names import checked_id, checked_metadata, checked_scope
from slipstream.ingest.prepare import Preparer, Source
from slipstream.ingest.quota import Quota
from slipstream.ingest.report import DocumentResult, IngestReport, OnEvent, Tally
from slipstream.ingest.versions import DocumentKey, fingerprint
from slipstream.ingest.write import OnChange, Writer
from slipstream.models.base import Encoder
from slipstream.runtime.workers import Worker
from slipstream.settings import IngestSettings, TenantsSettings
from slipstream.stores.base import Store
from slipstream.types import Scalar

__all__ = ["DocumentResult", "IngestReport", "Ingestor"]

_SPECIALS_TOKENS = 10
"""Room for the encoder's prefix and special tokens, and for sums that round."""
_UPLOADS = 2
"""Parsed at once. Files of a run have a thread of their own, so that an upload never waits behind a folder."""


class Ingestor:
    """Puts documents into the store and keeps the ledger of them; the store is opened and closed by its owner."""

    def __init__(
        self,
        store: Store,
        encoder: Encoder,
        ledger: Ledger,
        settings: IngestSettings,
        tenants: TenantsSettings | None = None,
        clock: Callable[[], float] = time.time,
        on_change: OnChange = lambda tenant, collection: None,
    ) -> None:
        limits = ChunkLimits(settings.passage_tokens, encoder.max_tokens - _SPECIALS_TOKENS, settings.overlap_tokens)
        self._ledger = ledger
        self._clock = clock
        self._max_bytes = settings.max_file_mib << 20
        self._files = Worker("ingest-files")
        self._uploads = Worker("ingest-uploads", threads=_UPLOADS)
        self._locks = DocumentLocks()
        self._preparer = Preparer(encoder.count_tokens, limits, fingerprint(encoder, limits))
        self._writer = Writer(store, encoder, ledger, Quota(ledger, tenants or TenantsSettings()), clock, on_change)
        self._emptying: dict[str, asyncio.Task[TenantUse]] = {}

    async def open(self) -> None:
        """Opens the ledger and repairs what a killed process left half-way; the store must be open."""
        await self._ledger.open()
        await self._writer.recover()

    async def close(self) -> None:
        await asyncio.gather(*self._emptying.values(), return_exceptions=True)
        await self._files.close()
        await self._uploads.close()
        await self._ledger.close()

    async def ingest_paths(
        self,
        paths: Sequence[Path],
        *,
        tenant: str,
        collection: str,
        prune: bool = False,
        on_event: OnEvent | None = None,
    ) -> IngestReport:
        """Brings the collection up to date with files and folders.

        Unchanged files cost a look at their times; an edited file replaces its document; with `prune`,
        documents whose file has gone from a folder named are removed. A file that cannot be read is
        reported and the rest goes on. Memory is bounded whatever the number and size of files.
        Raises Unavailable when the store, the encoder or the ledger fails; what the report would have
        named so far is then already durable.
        """
        checked_scope(tenant, collection)
        run = BatchRun(
            self._ledger,
            self._locks,
            self._preparer,
            self._writer,
            self._files,
            Tally(on_event),
            self._clock,
            tenant,
            collection,
        )
        await run.count(paths, self._max_bytes)
        await run.ingest(paths, self._max_bytes)
        if prune:
            await run.prune(paths)
        return run.report()

    async def ingest_bytes(
        self,
        name: str,
        data: bytes,
        *,
        tenant: str,
        collection: str,
        document_id: str | None = None,
        media_type: str | None = None,
        metadata: Mapping[str, Scalar] | None = None,
        time: float | None = None,
    ) -> DocumentResult:
        """Adds or replaces one document, searchable and durable on return.

        `name` is what readers see, and tells the format where `media_type`, one of MEDIA_TYPES, does not;
        `document_id` None takes it as id too. `time` is in seconds since the epoch, None meaning now. Of
        concurrent calls for one document the last wins.
        Raises DataError with the reason when the bytes are no readable document, InvalidRequest for names
        or metadata out of bounds, Unavailable when a part fails; the document is then as it was before.
        """
        checked_scope(tenant, collection)
        key = DocumentKey(tenant, collection, checked_id(document_id or name))
        when = self._clock() if time is None else time
        source = Source(key, name, when, metadata=checked_metadata(metadata), media_type=media_type)
        async with self._locks.hold([key]):
            known = await self._ledger.get(key)
            prepared = await self._uploads.run(self._preparer.upload, source, data, known)
            if prepared is None and known is not None:
                return DocumentResult(known, "unchanged")
            assert prepared is not None
            return (await self._writer.write([prepared]))[0]

    async def delete(self, tenant: str, collection: str, document_id: str) -> bool:
        """Removes a document; False when there is none. Durable on return."""
        key = DocumentKey(tenant, collection, document_id)
        async with self._locks.hold([key]):
            if await self._ledger.get(key) is None:
                return False
            await self._writer.delete(key)
            return True

    async def use(self, tenant: str) -> TenantUse:
        """What the tenant keeps."""
        return await self._ledger.use(tenant)

    async def delete_tenant(self, tenant: str) -> TenantUse:
        """Removes everything of a tenant, and says what that was. Durable on return; writers wait meanwhile.

        It goes on when the caller leaves, and is finished at the next start when the process is killed.
        Raises Unavailable when a part fails: nothing is listed any more then, and calling again completes it.
        """
        task = self._emptying.get(tenant)
        if task is None:
            task = self._emptying[tenant] = asyncio.create_task(self._empty(tenant), name=f"empty-{tenant}")
            task.add_done_callback(lambda _: self._emptying.pop(tenant, None))
        return await asyncio.shield(task)

    async def _empty(self, tenant: str) -> TenantUse:
        async with self._locks.hold_tenant(tenant):
            gone = await self._ledger.use(tenant)
            await self._writer.delete_tenant(tenant)
            return gone

    async def get_document(self, tenant: str, collection: str, document_id: str) -> DocumentRecord | None:
        found = await self._ledger.get(DocumentKey(tenant, collection, document_id))
        return found if found is not None and found.version and found.state != "deleting" else None

    async def list_documents(
        self,
        tenant: str,
        collection: str | None = None,
        *,
        limit: int = 100,
        after: str = "",
        after_collection: str = "",
    ) -> list[DocumentRecord]:
        """Documents by id, then collection: those behind the one that `after` and `after_collection` name."""
        return await self._ledger.page(tenant, collection, DocumentKey(tenant, after_collection, after), limit)
