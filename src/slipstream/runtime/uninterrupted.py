"""Work that a caller who leaves must not cut in two."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def uninterrupted(work: Coroutine[Any, Any, T]) -> T:
    """Runs it to its end; a cancellation that comes meanwhile is passed on afterwards. For milliseconds only."""
    task = asyncio.ensure_future(work)
    left: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            left = error
    if left is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # seen: whoever left is not told
    raise left
