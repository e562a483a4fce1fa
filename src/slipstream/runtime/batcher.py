"""Many callers, one `fn(list)`: batches what gathers while the function is busy, and answers every waiter."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from slipstream.call import Clock
from slipstream.errors import Bug, Overloaded, TryAgain, Unavailable

T = TypeVar("T")
R = TypeVar("R")

log = logging.getLogger(__name__)

WINDOW_BATCHES = 4
"""Under backlog a batch is chosen from this many batches' worth of the oldest waiters."""


class BatchObserver(Protocol):
    """What a batcher tells about itself; slipstream.observe.metrics.Metrics is one."""

    def batch_ran(self, batcher: str, waits_s: Sequence[float]) -> None:
        """A batch left the queue; one waiting time for each of its items."""
        ...


@dataclass(slots=True, eq=False)
class _Waiter(Generic[T, R]):
    item: T
    cost: int
    since_s: float
    future: asyncio.Future[R] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def resolve(self, result: R) -> None:
        if not self.future.done():
            self.future.set_result(result)

    def fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class Batcher(Generic[T, R]):
    """Runs `fn` on one batch at a time.

    A request that finds it idle runs at once, in its own task. What arrives meanwhile is batched: at
    most `max_items`, and at most `max_cost` with padding (items times the cost of the longest); an item
    larger than that runs alone. Under backlog a batch holds the oldest waiter and those nearest to it
    in cost, so that padding is small and nobody starves. When a batch fails, each of its items is
    tried alone, so that only a poisoned one fails; an error that says the part itself is down
    (TryAgain) goes to all of them at once.
    """

    def __init__(
        self,
        name: str,
        fn: Callable[[Sequence[T]], Awaitable[Sequence[R]]],
        *,
        cost: Callable[[T], int],
        max_cost: int,
        max_items: int,
        max_waiting: int | None,
        metrics: BatchObserver | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self.name = name
        self._fn = fn
        self._cost = cost
        self._max_cost = max_cost
        self._max_items = max_items
        self._max_waiting = max_waiting
        self._metrics = metrics
        self._clock = clock
        self._waiting: OrderedDict[_Waiter[T, R], None] = OrderedDict()
        self._running: Sequence[_Waiter[T, R]] = ()
        self._busy = False
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._loop(), name=f"batcher-{self.name}")
        self._task.add_done_callback(self._ended)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Refuses new items and answers every waiter with Unavailable."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def healthy(self) -> bool:
        """True while items are taken; False before it is entered and once its task died or it was closed."""
        return self._task is not None and not self._task.done() and not self._closed

    def waiting(self) -> int:
        return len(self._waiting)

    async def submit(self, item: T) -> R:
        """The result for one item.

        Raises Overloaded when `max_waiting` items wait already, Unavailable when the batcher is closed
        or dead, Bug when `fn` returns the wrong number of results, and whatever `fn` raises for the item.
        """
        self._admit(1)
        if not self._busy and not self._waiting:
            return await self._run_alone(item)
        waiter = self._enqueue(item)
        try:
            return await waiter.future
        finally:
            self._waiting.pop(waiter, None)

    async def submit_many(self, items: Sequence[T]) -> list[R]:
        """The results in the order of the items; raises as `submit` does when any of them fails.

        A group larger than `max_waiting` is taken when nobody else waits.
        """
        if len(items) <= 1:
            return [await self.submit(item) for item in items]
        self._admit(len(items))
        waiters = [self._enqueue(item) for item in items]
        try:
            return await asyncio.gather(*(waiter.future for waiter in waiters))
        finally:
            for waiter in waiters:
                self._waiting.pop(waiter, None)
                waiter.future.cancel()

    def _admit(self, count: int) -> None:
        if not self.healthy():
            raise Unavailable(f"The {self.name} batcher is not running. Try again once /readyz says ready.")
        if self._max_waiting is None or len(self._waiting) + count <= self._max_waiting:
            return
        if self._waiting or (self._busy and count == 1):
            raise Overloaded(
                f"{len(self._waiting)} items already wait for {self.name}. Try again in a moment.", retry_after_s=1.0
            )

    def _enqueue(self, item: T) -> _Waiter[T, R]:
        waiter: _Waiter[T, R] = _Waiter(item, self._cost(item), self._clock())
        self._waiting[waiter] = None
        if not self._busy:
            self._wake.set()
        return waiter

    async def _run_alone(self, item: T) -> R:
        self._busy = True
        try:
            if self._metrics is not None:
                self._metrics.batch_ran(self.name, (0.0,))
            return (await self._call((item,)))[0]
        finally:
            self._busy = False
            if self._waiting:
                self._wake.set()

    async def _loop(self) -> None:
        while True:
            while self._busy or not self._waiting:
                self._wake.clear()
                await self._wake.wait()
            self._running = self._next_batch()
            self._busy = True
            try:
                await self._answer(self._running)
            finally:
                self._busy = False
            self._running = ()

    def _next_batch(self) -> Sequence[_Waiter[T, R]]:
        """The oldest waiter and those nearest to it in cost, within the bounds; callers who left are dropped."""
        present = (waiter for waiter in self._waiting if not waiter.future.done())
        window = list(itertools.islice(present, WINDOW_BATCHES * self._max_items))
        if not window:
            self._waiting.clear()
            return ()
        oldest = window[0]
        window.sort(key=lambda waiter: abs(waiter.cost - oldest.cost))
        batch: list[_Waiter[T, R]] = []
        longest = 0
        for waiter in window[: self._max_items]:
            longest = max(longest, waiter.cost)
            if batch and longest * (len(batch) + 1) > self._max_cost:
                break
            batch.append(waiter)
            del self._waiting[waiter]
        return batch

    async def _answer(self, batch: Sequence[_Waiter[T, R]]) -> None:
        if self._metrics is not None and batch:
            now = self._clock()
            self._metrics.batch_ran(self.name, [now - waiter.since_s for waiter in batch])
        error = await self._try(batch)
        if error is None:
            return
        if len(batch) == 1 or isinstance(error, (TryAgain, _WrongCount)):
            for waiter in batch:
                waiter.fail(error)
            return
        log.warning("A batch of %d for %s failed; each item is tried alone.", len(batch), self.name, exc_info=error)
        for waiter in batch:
            if not waiter.future.done() and (alone := await self._try((waiter,))) is not None:
                waiter.fail(alone)

    async def _try(self, batch: Sequence[_Waiter[T, R]]) -> Exception | None:
        if not batch:
            return None
        try:
            results = await self._call([waiter.item for waiter in batch])
        except Exception as error:
            return error
        for waiter, result in zip(batch, results, strict=True):
            waiter.resolve(result)
        return None

    async def _call(self, items: Sequence[T]) -> Sequence[R]:
        try:
            results = await self._fn(items)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # not we but the work below was cancelled: a worker that was shut down under it
            raise Unavailable(f"What computes {self.name} was shut down while it ran. Try again.") from None
        if len(results) != len(items):
            raise _WrongCount(f"{self.name} returned {len(results)} results for {len(items)} items.")
        return results

    def _ended(self, task: asyncio.Task[None]) -> None:
        """However the loop ends, nobody is left waiting."""
        error = None if task.cancelled() else task.exception()
        if not self._closed:
            log.critical("The loop of the %s batcher died; nothing is batched any more.", self.name, exc_info=error)
        for waiter in (*self._running, *self._waiting):
            waiter.fail(Unavailable(f"The {self.name} batcher has stopped. Try again once /readyz says ready."))
        self._waiting.clear()


class _WrongCount(Bug):
    """No item is at fault, so none is tried again."""
