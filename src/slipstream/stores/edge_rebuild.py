"""One optimization: copy the shard, rebuild the copy in a patient process, replay later writes, change over."""

from __future__ import annotations

from collections import deque
from typing import Any

from slipstream.runtime.workers import Worker
from slipstream.stores.edge_client import EdgeClient
from slipstream.stores.edge_directory import EdgeDirectory, on_disk, sync_log
from slipstream.stores.index import IndexSpec

_LAST_WRITES = 8
"""Writes left to replay while others wait."""


class Rebuild:
    """begin → run → finish, and clean_up whatever happened. The current shard goes on; a crash costs nothing."""

    def __init__(self, directory: EdgeDirectory, worker: Worker, current: EdgeClient, index: IndexSpec) -> None:
        assert directory.current is not None  # an open store has a shard
        self._directory = directory
        self._source = directory.current
        self._shard = directory.new_shard()
        self._worker = worker
        self._index = index
        self._replaced = current
        self._next: EdgeClient | None = None
        self._journal: deque[tuple[str, Any]] = deque()
        self._done = False

    async def begin(self) -> None:
        """Copies the shard. No write may be under way."""
        await self._replaced.call("flush")
        await self._worker.run(on_disk, self._directory.copy, self._source, self._shard)

    def remember(self, operation: str, argument: Any) -> None:
        """A write that the copy has not seen."""
        self._journal.append((operation, argument))

    def forget_last(self) -> None:
        """The write that was remembered last has failed. It is never being replayed: the caller holds writes up."""
        self._journal.pop()

    async def run(self) -> None:
        """The long part: graph and term index, then most of what was written meanwhile."""
        patient = await EdgeClient.start(niceness=15)
        try:
            await patient.call("load", self._shard, self._directory.manifest.dimensions, self._index, True)
            await patient.call("optimize")
        except BaseException:  # also when cancelled: a shutdown does not wait for a copy that nobody will use
            await patient.kill()
            raise
        await patient.close()
        self._next = await EdgeClient.start()
        await self._next.call("load", self._shard, self._directory.manifest.dimensions, self._index)
        while len(self._journal) > _LAST_WRITES:
            await self._replay()

    async def finish(self) -> EdgeClient:
        """Replays the rest and makes the copy current. No write may be under way. Returns its process."""
        assert self._next is not None  # run() came first
        while self._journal:
            await self._replay()
        await self._worker.run(on_disk, sync_log, self._shard)
        await self._worker.run(on_disk, self._directory.commit, self._shard, self._index)
        self._done = True
        return self._next

    async def clean_up(self) -> None:
        """Ends the process that is no longer needed and removes its shard."""
        try:
            if self._done:
                await self._replaced.close()
            elif self._next is not None:
                await self._next.kill()
        finally:
            await self._worker.run(self._directory.drop_others)

    async def _replay(self) -> None:
        assert self._next is not None
        await self._next.call(*self._journal[0])
        self._journal.popleft()
