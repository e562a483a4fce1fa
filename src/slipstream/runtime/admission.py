"""Who may start costly work, and when: bounded in estimated tokens, fair between tenants, refusing at once."""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from slipstream.call import Clock, Deadline
from slipstream.errors import DeadlineExceeded, Overloaded, Unavailable
from slipstream.runtime.drain import DrainRate
from slipstream.runtime.fair_queue import FairQueue, Ticket

DEFAULT_RETRY_AFTER_S = 1.0
"""Said while no drain rate has been measured, and the least that is ever said."""
MAX_RETRY_AFTER_S = 60.0


@dataclass(frozen=True, slots=True)
class AdmissionLoad:
    """The figures of one instant, then counts since the start."""

    running: int
    running_tokens: int
    queued: int
    queued_tokens: int
    admitted: int
    refused_queue_full: int
    refused_deadline: int
    refused_closed: int
    expired: int
    """Deadlines that passed in the queue."""
    left: int
    """Callers who left the queue."""


@dataclass(slots=True)
class _Counts:
    admitted: int = 0
    refused_queue_full: int = 0
    refused_deadline: int = 0
    refused_closed: int = 0
    expired: int = 0
    left: int = 0


@dataclass(slots=True, eq=False)
class _Waiter(Ticket):
    deadline: Deadline
    future: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def granted(self) -> bool:
        return self.future.done() and not self.future.cancelled() and self.future.exception() is None

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class Permit:
    """Leave to run: tokens held until released."""

    def __init__(self, admission: Admission, tenant: str, tokens: int, waited_s: float) -> None:
        self._admission = admission
        self._tenant = tenant
        self.tokens = tokens
        """Estimated tokens still held."""
        self.waited_s = waited_s
        """Seconds spent in the queue."""

    def release(self, tokens: int | None = None) -> None:
        """Gives back some tokens early, or all that are left; never more than are held."""
        tokens = self.tokens if tokens is None else min(max(tokens, 0), self.tokens)
        self.tokens -= tokens
        self._admission._released(self._tenant, tokens)


class _Admitted:
    """A permit held for a block: a class and not a generator, since every request enters one."""

    __slots__ = ("_admission", "_deadline", "_permit", "_tenant", "_tokens")

    def __init__(self, admission: Admission, tenant: str, tokens: int, deadline: Deadline) -> None:
        self._admission = admission
        self._tenant = tenant
        self._tokens = tokens
        self._deadline = deadline

    async def __aenter__(self) -> Permit:
        self._permit = await self._admission.acquire(self._tenant, self._tokens, self._deadline)
        return self._permit

    async def __aexit__(self, *raised: object) -> None:
        self._admission.give_back(self._permit)


class Admission:
    """Admits calls while their estimated tokens fit, queues a bounded number, refuses the rest at once.

    A request larger than the whole capacity counts as the whole capacity, so it runs alone.
    `tenant_share` is the fraction of the capacity that one tenant may hold while another waits.
    """

    def __init__(
        self, max_tokens: int, max_queued_tokens: int, tenant_share: float = 1.0, clock: Clock = time.monotonic
    ) -> None:
        self._max_tokens = max_tokens
        self._max_queued_tokens = max_queued_tokens
        self._clock = clock
        self._queue = FairQueue(tenant_share * max_tokens)
        self._drain = DrainRate(clock)
        self._counts = _Counts()
        self._running = self._running_tokens = 0
        self._closed = False

    def load(self) -> AdmissionLoad:
        counts = self._counts
        return AdmissionLoad(
            running=self._running,
            running_tokens=self._running_tokens,
            queued=len(self._queue),
            queued_tokens=self._queue.tokens,
            admitted=counts.admitted,
            refused_queue_full=counts.refused_queue_full,
            refused_deadline=counts.refused_deadline,
            refused_closed=counts.refused_closed,
            expired=counts.expired,
            left=counts.left,
        )

    def refuse_if_full(self, at_least_tokens: int, tenant: str | None = None) -> None:
        """Raises Overloaded when no request of so many tokens could be taken now: a refusal that costs next to nothing.

        For the moment before a request is even parsed; `admit` decides about those that pass. A tenant, where it is
        known by then, passes when another one fills the queue: it would make that one give way.
        """
        tokens = min(at_least_tokens, self._max_tokens)
        runs = self._running_tokens + tokens <= self._max_tokens
        waits = self._queue.tokens + tokens <= self._max_queued_tokens
        if runs or waits:
            return
        excess = self._queue.tokens + tokens - self._max_queued_tokens
        if tenant is None or not self._queue.displaced_by(tenant, excess):
            raise self._overloaded(0.0, excess)

    def admit(self, tenant: str, tokens: int, deadline: Deadline) -> AbstractAsyncContextManager[Permit]:
        """Holds `tokens` (estimated prefill + decode) of the capacity while the context is open.

        Entering raises Overloaded at once, with `retry_after_s`, when the queue is full or the wait would outlast
        the deadline; DeadlineExceeded when the deadline passes in the queue; Unavailable when closed.
        """
        return _Admitted(self, tenant, tokens, deadline)

    async def acquire(self, tenant: str, tokens: int, deadline: Deadline) -> Permit:
        """What entering `admit` does; every permit goes back by `give_back`."""
        deadline.check("waiting to be admitted")
        tokens = min(max(tokens, 1), self._max_tokens)
        if not self._closed and not self._queue and self._running_tokens + tokens <= self._max_tokens:
            self._queue.start_at_once(tenant, tokens)
            self._count_granted(tokens)
            return Permit(self, tenant, tokens, 0.0)
        began_s = self._clock()
        waiter = _Waiter(tenant, tokens, deadline)
        self._enter(waiter)
        if not waiter.future.done():
            await self._wait(waiter)
        return Permit(self, tenant, tokens, self._clock() - began_s)

    def give_back(self, permit: Permit) -> None:
        self._running -= 1
        permit.release()

    async def close(self) -> None:
        """Refuses new calls and answers those who wait; permits already held stay valid."""
        self._closed = True
        for ticket in self._queue.tickets():
            self._leave(ticket)
            if isinstance(ticket, _Waiter) and not ticket.future.done():
                ticket.fail(self._shut())

    def _enter(self, waiter: _Waiter) -> None:
        """Queues a waiter, then grants or refuses it at once where that is possible."""
        if self._closed:
            raise self._shut()
        self._queue.add(waiter)
        self._dispatch()
        if waiter.future.done():
            return
        self._drain.saturated()
        self._make_room(waiter.tenant)
        late_s = self._estimated_wait_s(waiter.tenant) - waiter.deadline.remaining_s()
        if self._queue.tokens > self._max_queued_tokens or late_s > 0:
            error = self._overloaded(late_s, max(0, self._queue.tokens - self._max_queued_tokens))
            self._leave(waiter)
            raise error

    def _make_room(self, tenant: str) -> None:
        """When the queue is too full, the newest of whoever fills it most leave it, if that is enough."""
        excess = self._queue.tokens - self._max_queued_tokens
        if excess <= 0:
            return
        for ticket in self._queue.displaced_by(tenant, excess):
            self._leave(ticket)
            if isinstance(ticket, _Waiter):
                ticket.fail(self._overloaded(0.0, excess))

    async def _wait(self, waiter: _Waiter) -> None:
        remaining_s = waiter.deadline.remaining_s()
        try:
            async with asyncio.timeout(None if math.isinf(remaining_s) else remaining_s):
                await waiter.future
        except TimeoutError:
            self._give_up(waiter)
            raise self._expired() from None
        except asyncio.CancelledError:
            self._counts.left += 1
            self._give_up(waiter)
            raise

    def _give_up(self, waiter: _Waiter) -> None:
        """A waiter stops waiting; a grant that came in the same instant is given back."""
        if waiter.granted():
            self._running -= 1
            self._released(waiter.tenant, waiter.tokens)
        else:
            self._leave(waiter)
            self._dispatch()

    def _leave(self, ticket: Ticket) -> None:
        self._queue.remove(ticket)
        if not self._queue:
            self._drain.unsaturated()

    def _released(self, tenant: str, tokens: int) -> None:
        self._running_tokens -= tokens
        self._queue.release(tenant, tokens)
        self._drain.released(tokens)
        self._dispatch()

    def _dispatch(self) -> None:
        """Starts whoever is next for as long as they fit; those who left or are too late are passed over."""
        while (ticket := self._queue.next(self._max_tokens - self._running_tokens)) is not None:
            if not isinstance(ticket, _Waiter) or ticket.future.done():
                self._leave(ticket)
            elif ticket.deadline.remaining_s() <= 0:
                self._leave(ticket)
                ticket.fail(self._expired())
            else:
                self._grant(ticket)

    def _grant(self, waiter: _Waiter) -> None:
        self._queue.start(waiter)
        self._leave(waiter)
        self._count_granted(waiter.tokens)
        waiter.future.set_result(None)

    def _count_granted(self, tokens: int) -> None:
        self._running += 1
        self._running_tokens += tokens
        self._counts.admitted += 1

    def _estimated_wait_s(self, tenant: str) -> float:
        """Seconds until the newest waiter of a tenant starts; 0 while no drain rate is known."""
        rate = self._drain.tokens_per_s()
        if rate is None:
            return 0.0
        free = self._max_tokens - self._running_tokens
        return max(0, self._queue.ahead_of_newest(tenant) - free) / rate

    def _overloaded(self, late_s: float, excess: int) -> Overloaded:
        """`excess`: tokens by which the queue is, or would be, too full."""
        rate = self._drain.tokens_per_s()
        if excess:
            self._counts.refused_queue_full += 1
        else:
            self._counts.refused_deadline += 1
        after_s = DEFAULT_RETRY_AFTER_S if rate is None else max(late_s, excess / rate)
        after_s = min(max(after_s, DEFAULT_RETRY_AFTER_S), MAX_RETRY_AFTER_S)
        why = "the queue is full" if excess else "the wait would outlast the deadline"
        return Overloaded(f"The server is busy: {why}. Try again in {math.ceil(after_s)} s.", retry_after_s=after_s)

    def _shut(self) -> Unavailable:
        self._counts.refused_closed += 1
        return Unavailable(
            "The server is shutting down. Ask again once it is back.", retry_after_s=DEFAULT_RETRY_AFTER_S
        )

    def _expired(self) -> DeadlineExceeded:
        self._counts.expired += 1
        return DeadlineExceeded(
            "The deadline passed in the queue. Ask with a larger deadline_ms, or try again when load is lower."
        )
