"""Something done before a wait, and only then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from slipstream.server.before_wait import BeforeWait

pytestmark = pytest.mark.anyio


class Flush:
    def __init__(self) -> None:
        self.count = 0

    async def __call__(self) -> None:
        self.count += 1


async def test_a_value_that_is_there_comes_without_the_flush() -> None:
    async def ready() -> int:
        return 7

    flush = Flush()
    assert await BeforeWait(ready(), flush) == 7
    assert flush.count == 0


async def test_the_flush_runs_once_before_the_first_of_several_waits() -> None:
    order: list[str] = []

    async def flush() -> None:
        order.append("flush")

    async def slow() -> int:
        order.append("asked")
        await asyncio.sleep(0)
        order.append("woken")
        await asyncio.sleep(0)
        return 7

    assert await BeforeWait(slow(), flush) == 7
    assert order == ["asked", "flush", "woken"]


async def test_a_flush_that_waits_delays_but_loses_nothing() -> None:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def flush() -> None:
        future.set_result(7)
        await asyncio.sleep(0)

    async def waiting() -> int:
        return await future

    assert await BeforeWait(waiting(), flush) == 7


async def test_cancellation_reaches_what_is_awaited_even_in_the_flush() -> None:
    cleaned: list[str] = []
    flushing = asyncio.Event()

    async def flush() -> None:
        flushing.set()
        await asyncio.Event().wait()

    async def waiting() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            cleaned.append("inside")
            raise

    async def run() -> None:
        await BeforeWait(waiting(), flush)

    task = asyncio.create_task(run())
    await flushing.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned == ["inside"]


async def test_errors_and_ends_come_through() -> None:
    async def events() -> AsyncIterator[int]:
        yield 1
        await asyncio.sleep(0)
        yield 2
        raise ValueError("broken")

    flush, stream = Flush(), events()
    assert await BeforeWait(stream.__anext__(), flush) == 1
    assert await BeforeWait(stream.__anext__(), flush) == 2
    with pytest.raises(ValueError, match="broken"):
        await BeforeWait(stream.__anext__(), flush)
    with pytest.raises(StopAsyncIteration):
        await BeforeWait(stream.__anext__(), flush)
    assert flush.count == 1
