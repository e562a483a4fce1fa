"""A bound on the bytes of files held in memory at once."""

from __future__ import annotations

import asyncio


class Budget:
    """Lets work through while its sizes sum up to no more than the limit; a larger one goes alone."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._changed = asyncio.Condition()

    async def take(self, size: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: not self._used or self._used + size <= self._limit)
            self._used += size

    async def give(self, size: int) -> None:
        async with self._changed:
            self._used -= size
            self._changed.notify_all()
