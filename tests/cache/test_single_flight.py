"""Sharing one run: from the start, until the last one leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from slipstream.cache.single_flight import SingleFlight
from slipstream.errors import Unavailable

pytestmark = pytest.mark.anyio


class Source:
    """Yields 0, 1, 2 … as steps are allowed, and knows how often it was started and whether it was ended."""

    def __init__(self, last: int = 3) -> None:
        self.started = self.ended = 0
        self.steps = asyncio.Semaphore(0)
        self._last = last

    async def __call__(self) -> AsyncGenerator[int, None]:
        self.started += 1
        try:
            for number in range(self._last):
                await self.steps.acquire()
                yield number
        finally:
            self.ended += 1

    def allow(self, steps: int) -> None:
        for _ in range(steps):
            self.steps.release()


async def collected(flights: SingleFlight[str, int], source: Source, key: str = "k") -> list[int]:
    return [item async for item in flights.join(key, source)]


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_sixty_four_share_one_run_and_each_sees_it_from_the_start() -> None:
    flights: SingleFlight[str, int] = SingleFlight()
    source = Source()
    early = [asyncio.create_task(collected(flights, source)) for _ in range(63)]
    await settle()
    source.allow(2)
    await settle()
    late = asyncio.create_task(collected(flights, source))
    await settle()
    source.allow(1)
    assert await asyncio.gather(*early, late) == [[0, 1, 2]] * 64
    assert (source.started, source.ended, len(flights)) == (1, 1, 0)


async def test_other_keys_run_by_themselves() -> None:
    flights: SingleFlight[str, int] = SingleFlight()
    source = Source()
    source.allow(6)
    both = await asyncio.gather(collected(flights, source, "a"), collected(flights, source, "b"))
    assert list(both) == [[0, 1, 2]] * 2
    assert source.started == 2


async def test_the_first_may_leave_and_the_last_ends_it() -> None:
    flights: SingleFlight[str, int] = SingleFlight()
    source = Source()
    first, second = (asyncio.create_task(collected(flights, source)) for _ in range(2))
    await settle()
    source.allow(1)
    await settle()
    first.cancel()
    await settle()
    assert source.ended == 0
    second.cancel()
    await settle()
    assert source.ended == 1
    assert len(flights) == 0


async def test_the_others_get_the_rest_when_the_first_leaves() -> None:
    flights: SingleFlight[str, int] = SingleFlight()
    source = Source()
    first, second = (asyncio.create_task(collected(flights, source)) for _ in range(2))
    await settle()
    first.cancel()
    await settle()
    source.allow(3)
    assert await second == [0, 1, 2]


async def test_whoever_comes_after_everybody_left_begins_anew() -> None:
    flights: SingleFlight[str, int] = SingleFlight()
    source = Source()
    only = asyncio.create_task(collected(flights, source))
    await settle()
    only.cancel()
    await asyncio.sleep(0)
    again = asyncio.create_task(collected(flights, source))
    await settle()
    source.allow(3)
    assert await again == [0, 1, 2]
    assert source.started == 2


async def test_a_failure_reaches_everybody_and_is_not_kept() -> None:
    flights: SingleFlight[str, int] = SingleFlight()
    steps = asyncio.Event()

    async def failing() -> AsyncGenerator[int, None]:
        yield 0
        await steps.wait()
        raise ValueError("out of luck")

    async def take() -> list[int]:
        return [item async for item in flights.join("k", failing)]

    waiting = [asyncio.create_task(take()) for _ in range(3)]
    await settle()
    steps.set()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [ValueError] * 3
    assert not flights.running("k")


async def test_whoever_comes_after_the_last_item_begins_anew() -> None:
    flights: SingleFlight[str, int] = SingleFlight(lambda item: item == 2)
    source = Source()
    source.allow(6)
    async with aclosing(flights.join("k", source)) as items:
        async for item in items:
            if item == 2:
                assert not flights.running("k")
                assert await collected(flights, source) == [0, 1, 2]
    assert source.started == 2


async def test_leaving_early_closes_cleanly() -> None:
    flights: SingleFlight[str, int] = SingleFlight()
    source = Source()
    source.allow(3)
    async with aclosing(flights.join("k", source)) as items:
        assert await anext(items) == 0
    await settle()
    assert len(flights) == 0


async def test_closing_ends_what_runs() -> None:
    flights: SingleFlight[str, int] = SingleFlight()
    source = Source()
    waiting = asyncio.create_task(collected(flights, source))
    await settle()
    await flights.close()
    with pytest.raises(Unavailable):
        await waiting
    assert source.ended == 1
