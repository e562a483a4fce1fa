"""From a request to an attempt that has its first token: failover, hedging, and waiting where a server says when."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from slipstream.call import Call
from slipstream.errors import Overloaded, SlipstreamError, Unavailable
from slipstream.models.remote.attempt import Attempt
from slipstream.models.remote.faults import Fault
from slipstream.models.remote.pool import Pool
from slipstream.models.remote.replica import Replica
from slipstream.settings import RemoteEngineSettings

_ROUNDS = 3
"""How often all replicas are asked, at most."""
_HEDGE_SHARE = 0.1
"""Of the requests; a second copy of every slow one would double the load when all are slow."""
_MOST_HEDGES_SAVED = 10.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Request:
    body: bytes
    key: bytes | None
    call: Call


class Dispatcher:
    """Nothing that it does is seen by the caller: a request has not begun before its first token."""

    def __init__(
        self,
        pool: Pool,
        settings: RemoteEngineSettings,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.failovers = 0
        self.hedges = 0
        self.hedges_won = 0
        self._pool = pool
        self._settings = settings
        self._sleep = sleep
        self._saved_hedges = 1.0

    async def begin(self, request: Request) -> Attempt:
        """The first attempt whose model began. The caller closes it.

        Raises InvalidRequest, Overloaded, Unavailable or DeadlineExceeded, whichever the last replica gave reason for.
        """
        self._saved_hedges = min(self._saved_hedges + _HEDGE_SHARE, _MOST_HEDGES_SAVED)
        last: Fault | None = None
        before: Replica | None = None
        for _ in range(_ROUNDS):
            tried: set[Replica] = set()
            while (replica := self._pool.choose(request.key, tried)) is not None:
                self.failovers += before not in {None, replica}
                before = replica
                try:
                    return await self._attempt(replica, request, tried)
                except Fault as fault:
                    if not fault.elsewhere:
                        raise fault.error from fault
                    log.warning("Engine %s failed before the first token: %s", replica.label, fault.error.message)
                    last = fault
            await self._wait(last, request.call)
        raise self._nobody(last)

    async def _attempt(self, replica: Replica, request: Request, tried: set[Replica]) -> Attempt:
        """One attempt, or two that race. `tried` takes the replicas that were asked."""
        tried.add(replica)
        attempt = self._new(replica, request)
        if self._settings.hedge_ms and len(self._pool.replicas) > 1:
            return await self._race(attempt, request, tried)
        try:
            await attempt.start()
        except BaseException:
            await attempt.close()
            raise
        return attempt

    async def _race(self, first: Attempt, request: Request, tried: set[Replica]) -> Attempt:
        """The first of two to have a token; the second begins when the first is late (Dean, Barroso 2013)."""
        running = {asyncio.create_task(first.start()): first}
        winner: Attempt | None = None
        fault: BaseException | None = None
        try:
            await asyncio.wait(running, timeout=self._settings.hedge_ms / 1_000)
            if not any(task.done() for task in running):
                self._hedge(running, request, tried)
            pending = set(running)
            while pending and winner is None:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    if (error := task.exception()) is None:
                        winner = winner or running[task]
                    else:
                        fault = error
        finally:
            await _end(running, winner)
        if winner is None:
            raise fault or Unavailable("The language model's servers gave no answer. Try again.")
        self.hedges_won += winner is not first
        return winner

    def _hedge(self, running: dict[asyncio.Task[None], Attempt], request: Request, tried: set[Replica]) -> None:
        other = self._pool.spare(tried) if self._saved_hedges >= 1 else None
        if other is not None:
            self._saved_hedges -= 1
            self.hedges += 1
            tried.add(other)
            attempt = self._new(other, request)
            running[asyncio.create_task(attempt.start())] = attempt

    def _new(self, replica: Replica, request: Request) -> Attempt:
        return Attempt(replica, request.body, request.call, self._settings)

    async def _wait(self, last: Fault | None, call: Call) -> None:
        """Until a replica said it may be asked again, when that is before the deadline. Raises what was wrong if not.

        A breaker is not waited for: when nothing answers, callers are told so at once.
        """
        after_s = self._pool.said_free_in_s()
        if after_s is None or after_s >= call.deadline.remaining_s():
            raise self._nobody(last)
        await self._sleep(after_s)

    def _nobody(self, last: Fault | None) -> SlipstreamError:
        if last is not None and not isinstance(last.error, Overloaded):
            return last.error
        after_s = max(1.0, self._pool.free_in_s())
        if last is not None or any(replica.busy_for_s or replica.breaker.allows for replica in self._pool.replicas):
            return Overloaded("The language model's servers are busy. Try again later.", retry_after_s=after_s)
        text = "No server of the language model can be reached. Try again later."
        return Unavailable(text, code="engine_unavailable", retry_after_s=after_s)


async def _end(running: dict[asyncio.Task[None], Attempt], winner: Attempt | None) -> None:
    """Cancels and closes every attempt but the winner, and waits until they are gone."""
    losers = {task: attempt for task, attempt in running.items() if attempt is not winner}
    for task in losers:
        task.cancel()
    await asyncio.gather(*losers, return_exceptions=True)
    for attempt in losers.values():
        await attempt.close()
