"""One run over files and folders: several files in flight, written in lots, memory bounded."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from slipstream.errors import DataError
from slipstream.ingest.budget import Budget
from slipstream.ingest.groups import first_error
from slipstream.ingest.ledger import DocumentRecord, Ledger
from slipstream.ingest.locks import DocumentLocks
from slipstream.ingest.prepare import Prepared, Preparer, Source
from slipstream.ingest.report import DocumentResult, IngestReport, Problem, Tally
from slipstream.ingest.versions import DocumentKey
from slipstream.ingest.walk import Found, FoundFile, walk
from slipstream.ingest.write import Writer
from slipstream.runtime.workers import Worker

_FILES_AHEAD = 32
_READERS = 4
_LOT_DOCUMENTS = 64
_LOT_PASSAGES = 256
_HELD_BYTES = 64 << 20
_PAGE = 500


@dataclass(slots=True)
class BatchRun:
    ledger: Ledger
    locks: DocumentLocks
    preparer: Preparer
    writer: Writer
    worker: Worker
    tally: Tally
    clock: Callable[[], float]
    tenant: str
    collection: str
    _budget: Budget = field(default_factory=lambda: Budget(_HELD_BYTES))
    _roots: dict[str, str] = field(default_factory=dict)
    """Where each document of this run came from, when more than one folder is ingested."""

    async def count(self, paths: Sequence[Path], max_bytes: int) -> None:
        """A first walk, so that progress has an end."""
        files = await self.worker.run(_measure, walk(paths, max_bytes))
        self.tally.files_total, self.tally.bytes_total = files.count, files.bytes
        self.tally.tell("started")

    async def ingest(self, paths: Sequence[Path], max_bytes: int) -> None:
        """Raises what the store, the encoder and the ledger raise; a file's own fault goes into the report."""
        several = len(paths) > 1
        to_read, files = anyio.create_memory_object_stream[FoundFile](_FILES_AHEAD)
        to_write, ready = anyio.create_memory_object_stream[Prepared](_LOT_DOCUMENTS)
        with first_error():
            async with anyio.create_task_group() as group:
                group.start_soon(self._feed, walk(paths, max_bytes), to_read, several)
                for _ in range(_READERS):
                    group.start_soon(self._read, files.clone(), to_write.clone())
                files.close()
                to_write.close()
                group.start_soon(self._write, ready)

    async def prune(self, paths: Sequence[Path]) -> None:
        """Removes the documents whose file has gone from the folders named."""
        for path in paths:
            if await self.worker.run(path.is_dir):
                await self._prune(str(path.resolve()))

    def report(self) -> IngestReport:
        return self.tally.report()

    async def _feed(
        self, found: Iterator[Found], to_read: MemoryObjectSendStream[FoundFile], several_roots: bool
    ) -> None:
        async with to_read:
            while entries := await self.worker.run(lambda: list(islice(found, _FILES_AHEAD))):
                for entry in entries:
                    if isinstance(entry, Problem):
                        self._leave_alone(entry)
                    elif not several_roots or self._is_first(entry):
                        await to_read.send(entry)

    def _leave_alone(self, problem: Problem) -> None:
        if problem.code == "unreadable":
            self.tally.failed(problem.name, problem.reason, problem.code)
        else:
            self.tally.skipped(problem)

    def _is_first(self, found: FoundFile) -> bool:
        other = self._roots.get(found.id)
        if other is None:
            self._roots[found.id] = found.root
            return True
        if other == found.root:  # a file named beside its own folder
            return False
        reason = f"{other} holds a file of the same name. Ingest one of the folders into another collection."
        self.tally.failed(str(found.path), reason, "id_conflict", found.size)
        return False

    async def _read(
        self, files: MemoryObjectReceiveStream[FoundFile], to_write: MemoryObjectSendStream[Prepared]
    ) -> None:
        async with files, to_write:
            async for found in files:
                await self._budget.take(found.size)
                prepared = await self._prepare(found)
                if prepared is None:
                    await self._budget.give(found.size)
                else:
                    await to_write.send(prepared)

    async def _prepare(self, found: FoundFile) -> Prepared | None:
        """None when there is nothing to write: unchanged, or reported as failed."""
        key = DocumentKey(self.tenant, self.collection, found.id)
        signature = found.signature(int(self.clock() * 1e9))
        source = Source(key, found.id, found.time, found.root, signature)
        known = await self.ledger.get(key)
        try:
            prepared = await self.worker.run(self.preparer.file, found, source, known)
        except DataError as error:
            self.tally.failed(found.id, error.message, error.code, found.size)
            return None
        except OSError as error:
            self.tally.failed(found.id, f"The file cannot be read: {error.strerror}.", "unreadable", found.size)
            return None
        if prepared is None and known is not None:
            await self._unchanged(known, source, found.size)
        return prepared

    async def _unchanged(self, known: DocumentRecord, source: Source, size: int) -> None:
        if (known.root, known.signature) != (source.root, source.signature):
            await self.ledger.touch(known.key, source.root, source.signature)
        self.tally.done(DocumentResult(known, "unchanged"), size)

    async def _write(self, ready: MemoryObjectReceiveStream[Prepared]) -> None:
        async with ready:
            async for first in ready:
                lot = [first, *_more(ready, len(first.chunks))]
                async with self.locks.hold([document.key for document in lot]):
                    results = await self.writer.write(lot)
                for document, result in zip(lot, results, strict=True):
                    self.tally.done(result, document.size)
                    await self._budget.give(document.size)

    async def _prune(self, root: str) -> None:
        after = ""
        while page := await self.ledger.under(self.tenant, self.collection, root, after, _PAGE):
            gone = await self.worker.run(_gone, root, page)
            for record in gone:
                async with self.locks.hold([record.key]):
                    await self.writer.delete(record.key)
                self.tally.removed(record.id)
            after = page[-1].id


@dataclass(frozen=True, slots=True)
class _Measure:
    count: int
    bytes: int


def _measure(found: Iterator[Found]) -> _Measure:
    count = size = 0
    for entry in found:
        if isinstance(entry, FoundFile):
            count += 1
            size += entry.size
    return _Measure(count, size)


def _more(ready: MemoryObjectReceiveStream[Prepared], passages: int) -> Iterator[Prepared]:
    """Documents that are ready now, up to a lot: one durable write serves them all."""
    for _ in range(_LOT_DOCUMENTS - 1):
        if passages >= _LOT_PASSAGES:
            return
        try:
            document = ready.receive_nowait()
        except (anyio.WouldBlock, anyio.EndOfStream):
            return
        passages += len(document.chunks)
        yield document


def _gone(root: str, records: Sequence[DocumentRecord]) -> list[DocumentRecord]:
    return [record for record in records if not os.path.lexists(Path(root, record.id))]
