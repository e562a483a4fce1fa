"""Named worker threads: the only place where blocking or computing code runs."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from slipstream.errors import Bug, Unavailable

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
        """Runs `fn` on a thread, in the caller's context (so its logs carry the request id).

        A cancelled caller stops waiting; work that has not begun is dropped, work that has runs to its end.
        Raises Unavailable after `close`, and whatever `fn` raises.
        """
        if self._closed:
            raise self._shut_down()
        context = contextvars.copy_context()
        future = self._pool.submit(context.run, lambda: _guarded(fn, *args, **kwargs))
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._closed and task is not None and not task.cancelling():
                raise self._shut_down() from None
            raise

    async def close(self) -> None:
        """Refuses new calls, answers those not yet begun with Unavailable, waits for the ones that run."""
        self._closed = True
        await asyncio.to_thread(self._pool.shutdown, wait=True, cancel_futures=True)

    def _shut_down(self) -> Unavailable:
        return Unavailable(f"The {self.name} worker has been shut down.")


def _guarded(fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    try:
        return fn(*args, **kwargs)
    except StopIteration as error:
        # asyncio cannot put a StopIteration into a future: the caller would wait for ever
        raise Bug("A StopIteration escaped from work on a thread.") from error
