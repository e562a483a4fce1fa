"""Equal questions in flight share one run: each waiter sees it from the start, and the last one to leave ends it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Hashable
from contextlib import aclosing
from typing import Generic, TypeVar

from slipstream.errors import Unavailable

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


class Flight(Generic[T]):
    """One run of a generator in a task of its own, its items kept for whoever joins late."""

    def __init__(
        self, source: Callable[[], AsyncGenerator[T, None]], ended: Callable[[], None], is_last: Callable[[T], bool]
    ) -> None:
        self._ended = ended
        self._is_last = is_last
        self._items: list[T] = []
        self._error: Exception | None = None
        self._done = False
        self._waiters = 0
        self._news: list[asyncio.Future[None]] = []
        self._task = asyncio.create_task(self._run(source), name="shared-answer")
        self._task.add_done_callback(lambda _: ended())

    @property
    def waiters(self) -> int:
        return self._waiters

    @property
    def open(self) -> bool:
        """Whether joining it makes sense: it has neither ended nor failed and is not being cancelled."""
        return not self._done and self._error is None and not self._task.cancelling()

    async def items(self) -> AsyncGenerator[T, None]:
        """Everything from the start; raises what the run raises. Closing it leaves the flight."""
        self._waiters += 1
        at = 0
        try:
            while True:
                while at < len(self._items):
                    at += 1
                    yield self._items[at - 1]
                if self._error is not None:
                    raise self._error
                if self._done:
                    return
                await self._next()
        finally:
            self._waiters -= 1
            if not self._waiters and not self._task.done():
                self._task.cancel()

    async def _next(self) -> None:
        news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._news.append(news)
        await news

    async def _run(self, source: Callable[[], AsyncGenerator[T, None]]) -> None:
        try:
            async with aclosing(source()) as items:
                async for item in items:
                    self._items.append(item)
                    if self._is_last(item):
                        self._done = True
                        self._ended()
                    self._tell()
        except asyncio.CancelledError:
            self._error = Unavailable("The answer was being written when the server stopped. Ask again.")
            raise
        except Exception as error:
            self._error = error
        finally:
            self._done = True
            self._tell()

    def _tell(self) -> None:
        news, self._news = self._news, []
        for future in news:
            if not future.done():
                future.set_result(None)


class SingleFlight(Generic[K, T]):
    """Flights by key. A key must hold all that the run depends on.

    `is_last` knows the item that ends a run: whoever comes after it begins anew.
    """

    def __init__(self, is_last: Callable[[T], bool] = lambda _: False) -> None:
        self._is_last = is_last
        self._flights: dict[K, Flight[T]] = {}

    def __len__(self) -> int:
        return len(self._flights)

    def running(self, key: K) -> bool:
        flight = self._flights.get(key)
        return flight is not None and flight.open

    def join(self, key: K, source: Callable[[], AsyncGenerator[T, None]]) -> AsyncGenerator[T, None]:
        """The items of the flight with this key, which `source` begins when there is none."""
        flight = self._flights.get(key)
        if flight is None or not flight.open:
            flight = self._begin(key, source)
        return flight.items()

    def _begin(self, key: K, source: Callable[[], AsyncGenerator[T, None]]) -> Flight[T]:
        def ended() -> None:
            if self._flights.get(key) is flight:
                del self._flights[key]

        flight = Flight(source, ended, self._is_last)
        self._flights[key] = flight
        return flight

    async def close(self) -> None:
        """Ends what still runs."""
        tasks = [flight._task for flight in self._flights.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
