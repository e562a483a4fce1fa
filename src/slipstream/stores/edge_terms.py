"""Term counts of an embedded store: counted from the shard, kept in step with its writes, saved when it closes."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from zipfile import BadZipFile

from slipstream.runtime.workers import Worker
from slipstream.stores.bm25 import SparseTerms
from slipstream.stores.edge_client import EdgeClient
from slipstream.stores.edge_directory import on_disk, sync_path
from slipstream.stores.edge_protocol import EdgePoint, TallyPage
from slipstream.stores.term_counts import TermCounts, TermTally, tallied
from slipstream.types import Scope

log = logging.getLogger(__name__)

_PAGE = 1_000


class EdgeTerms:
    """The saved file is removed before the first write after it: whoever finds one may believe it."""

    def __init__(self, path: Path, worker: Worker) -> None:
        self._path = path
        self._worker = worker
        self._counts = TermCounts()
        self._saved = False
        self._exact = True

    async def open(self, client: EdgeClient, passages: int) -> None:
        """Reads the saved counts, or counts again: seconds to a minute for 100,000 passages."""
        found = await self._worker.run(on_disk, self._read)
        if found is not None and found.passages() == passages:
            self._counts, self._saved = found, True
            return
        await self._worker.run(on_disk, self._unlink)
        if passages:
            log.info("Counting the terms of %d passages, since the store was not closed in order.", passages)
        next_id: str | None = None
        while True:
            page: TallyPage = await client.call("tally_page", None, next_id, _PAGE)
            await self._worker.run(self._counts.add, page.tallies)
            next_id = page.next_id
            if next_id is None:
                return

    async def close(self) -> None:
        if self._exact and not self._saved:
            await self._worker.run(on_disk, self._write)

    def weighted(self, terms: SparseTerms, tenant: str) -> SparseTerms:
        return self._counts.weighted(terms, tenant)

    async def before_write(self) -> None:
        if self._saved:
            await self._worker.run(on_disk, self._unlink)
            self._saved = False

    async def replaced(self, points: Sequence[EdgePoint], old: Sequence[TermTally]) -> None:
        new = tallied((point.passage.tenant, point.terms.ids) for point in points)
        await self._worker.run(self._replace, new, old)

    async def removed(self, scope: Scope, old: Sequence[TermTally]) -> None:
        if whole_tenant(scope):
            self._counts.forget(scope.tenant)
        else:
            await self._worker.run(self._counts.remove, old)

    def distrust(self) -> None:
        """A write failed half-way: the counts serve until the store closes, and are then counted again."""
        self._exact = False

    def _replace(self, new: Sequence[TermTally], old: Sequence[TermTally]) -> None:
        self._counts.add(new)
        self._counts.remove(old)

    def _read(self) -> TermCounts | None:
        try:
            return TermCounts.unpacked(self._path.read_bytes())
        except FileNotFoundError:
            return None
        except (BadZipFile, ValueError, KeyError, EOFError):
            log.warning("%s is not readable; counting again.", self._path)
            return None

    def _write(self) -> None:
        draft = self._path.with_suffix(".new")
        with draft.open("wb") as file:
            file.write(self._counts.packed())
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._path)
        sync_path(self._path.parent)
        self._saved = True

    def _unlink(self) -> None:
        self._path.unlink(missing_ok=True)
        sync_path(self._path.parent)


def whole_tenant(scope: Scope) -> bool:
    return not scope.collections and scope.filter is None
