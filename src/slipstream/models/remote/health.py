"""The background task that asks every replica how it is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from slipstream.models.remote.faults import Fault
from slipstream.models.remote.replica import Replica

log = logging.getLogger(__name__)


class HealthChecks:
    """Runs from `start` to `close`. A replica's failure is its breaker's business; this task's own is ours."""

    def __init__(self, replicas: Sequence[Replica], path: str, every_s: float) -> None:
        self._replicas = replicas
        self._path = path
        self._every_s = every_s
        self._task: asyncio.Task[None] | None = None
        self._closing = False

    @property
    def alive(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="engine-health")
        self._task.add_done_callback(self._ended)

    async def close(self) -> None:
        self._closing = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            if self._path:
                await asyncio.gather(*(check(replica, self._path) for replica in self._replicas))
            await asyncio.sleep(self._every_s)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not self._closing:
            error = None if task.cancelled() else task.exception()
            log.critical("The health checks of the engines died.", exc_info=error)


async def check(replica: Replica, path: str) -> bool:
    """Asks one replica, and lets its breaker know."""
    before = replica.breaker.state
    try:
        await replica.get(path)
    except Fault as fault:
        if fault.counts or fault.certain:
            replica.breaker.failure(fault.certain)
        if before == "closed" and replica.breaker.state != "closed":
            log.warning("Engine %s is down: %s", replica.label, fault.error.message)
        return False
    replica.breaker.well()
    if before == "open":
        log.info("Engine %s answers again.", replica.label)
    return True
