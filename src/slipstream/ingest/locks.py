"""One writer at a time for each document, in the order they came."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

from slipstream.ingest.versions import DocumentKey


class DocumentLocks:
    """Locks that exist only while somebody holds or awaits them."""

    def __init__(self) -> None:
        self._locks: dict[DocumentKey, asyncio.Lock] = {}
        self._users: dict[DocumentKey, int] = {}

    @asynccontextmanager
    async def hold(self, keys: Iterable[DocumentKey]) -> AsyncIterator[None]:
        """Holds all of them; taken in a fixed order, so that two holders never wait for each other."""
        async with AsyncExitStack() as stack:
            for key in sorted(set(keys), key=lambda one: (one.tenant, one.collection, one.id)):
                await stack.enter_async_context(self._one(key))
            yield

    @asynccontextmanager
    async def _one(self, key: DocumentKey) -> AsyncIterator[None]:
        lock = self._locks.setdefault(key, asyncio.Lock())
        self._users[key] = self._users.get(key, 0) + 1
        try:
            async with lock:
                yield
        finally:
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key], self._locks[key]
