"""One writer at a time for each document, in the order they came; and none while its tenant is being emptied."""

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
        self._writers: dict[str, int] = {}
        self._emptying: dict[str, asyncio.Event] = {}
        self._last_left: dict[str, asyncio.Event] = {}

    @asynccontextmanager
    async def hold(self, keys: Iterable[DocumentKey]) -> AsyncIterator[None]:
        """Holds all of them; taken in a fixed order, so that two holders never wait for each other."""
        ordered = sorted(set(keys), key=lambda one: (one.tenant, one.collection, one.id))
        async with AsyncExitStack() as stack:
            for tenant in dict.fromkeys(key.tenant for key in ordered):
                await stack.enter_async_context(self._inside(tenant))
            for key in ordered:
                await stack.enter_async_context(self._one(key))
            yield

    @asynccontextmanager
    async def hold_tenant(self, tenant: str) -> AsyncIterator[None]:
        """Waits for those who write a document of the tenant, and lets nobody begin until it is left."""
        while (other := self._emptying.get(tenant)) is not None:
            await other.wait()
        done = self._emptying[tenant] = asyncio.Event()
        try:
            if self._writers.get(tenant):
                self._last_left[tenant] = asyncio.Event()
                await self._last_left[tenant].wait()
            yield
        finally:
            self._last_left.pop(tenant, None)
            del self._emptying[tenant]
            done.set()

    @asynccontextmanager
    async def _inside(self, tenant: str) -> AsyncIterator[None]:
        while (emptying := self._emptying.get(tenant)) is not None:
            await emptying.wait()
        self._writers[tenant] = self._writers.get(tenant, 0) + 1
        try:
            yield
        finally:
            self._writers[tenant] -= 1
            if not self._writers[tenant]:
                del self._writers[tenant]
                if (waiting := self._last_left.get(tenant)) is not None:
                    waiting.set()

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
