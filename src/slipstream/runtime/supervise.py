"""An owner for background tasks: one that dies takes readiness down, loudly."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self

from slipstream.runtime.warmup import Readiness

log = logging.getLogger(__name__)


class Supervisor:
    """Owns background tasks for as long as its context is open, and cancels them when it closes."""

    def __init__(self, readiness: Readiness) -> None:
        self._readiness = readiness
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closing = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def start(self, name: str, work: Coroutine[Any, Any, None], *, may_finish: bool = False) -> asyncio.Task[None]:
        """Runs `work` in the background.

        With `may_finish`, returning is no fault; raising always is. Keep jobs whose failure concerns
        one caller (an upload, say) out of here: they report to that caller.
        """
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(lambda ended: self._ended(ended, may_finish))
        return task

    def running(self) -> frozenset[str]:
        """Names of the tasks alive."""
        return frozenset(task.get_name() for task in self._tasks)

    async def close(self) -> None:
        """Cancels every task and waits for all of them."""
        self._closing = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _ended(self, task: asyncio.Task[None], may_finish: bool) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.critical("Background task %s died.", task.get_name(), exc_info=error)
        elif self._closing or (may_finish and not task.cancelled()):
            return
        cause = "was cancelled" if task.cancelled() else "ended" if error is None else "died"
        self._readiness.fail(f"the background task {task.get_name()} {cause}")
