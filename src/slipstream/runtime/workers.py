"""Named worker threads: the only place where blocking or computing code runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from slipstream.errors import Unavailable

P = ParamSpec("P")
T = TypeVar("T")


class Worker:
    """A pool of threads with a name, used through `run`.

    One thread (the default) also serialises: calls run in the order they came.
    """

    def __init__(self, name: str, threads: int = 1) -> None:
        self.name = name
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"slipstream-{name}")
        self._closed = False

    async def run(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs `fn` on a thread. A cancelled caller stops waiting; work that has begun runs to its end.

        Raises Unavailable after `close`, and whatever `fn` raises.
        """
        if self._closed:
            raise Unavailable(f"The {self.name} worker has been shut down.")
        return await asyncio.wrap_future(self._pool.submit(fn, *args, **kwargs))

    async def close(self) -> None:
        """Refuses new calls, drops those not yet begun, waits for the one that runs."""
        self._closed = True
        await asyncio.to_thread(self._pool.shutdown, wait=True, cancel_futures=True)
