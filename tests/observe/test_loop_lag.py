"""Event loop lag, measured with an injected clock and once on a loop that is really blocked."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from slipstream.observe.loop_lag import LoopLag

pytestmark = pytest.mark.anyio


class LateSleeper:
    """A clock, and a sleep that wakes as late as it is told."""

    def __init__(self, lags_s: list[float]) -> None:
        self.now_s = 0.0
        self._lags_s = iter(lags_s)

    def clock(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        lag_s = next(self._lags_s, None)
        if lag_s is None:
            raise asyncio.CancelledError
        self.now_s += seconds + lag_s


async def measured(lags_s: list[float], keep: int = 1_000) -> LoopLag:
    sleeper = LateSleeper(lags_s)
    lag = LoopLag(keep=keep, clock=sleeper.clock, sleep=sleeper.sleep)
    with pytest.raises(asyncio.CancelledError):
        await lag.run()
    return lag


async def test_p99_and_maximum() -> None:
    lag = await measured([0.001] * 98 + [0.010] + [0.200])
    assert lag.p99_ms() == pytest.approx(200)
    lag = await measured([0.001] * 198 + [0.010] + [0.200])
    assert lag.p99_ms() == pytest.approx(10)
    assert lag.max_ms() == pytest.approx(200)


async def test_only_the_latest_are_kept() -> None:
    lag = await measured([1.0] * 5 + [0.002] * 10, keep=10)
    assert lag.max_ms() == pytest.approx(2)
    lag.reset()
    assert lag.p99_ms() == lag.max_ms() == 0


async def test_a_long_block_is_said_aloud(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        await measured([0.5])
    assert "blocked for 500 ms" in caplog.text


async def test_sees_a_loop_that_is_really_blocked() -> None:
    seen, noticed = list[float](), asyncio.Event()

    def on_lag(lag_s: float) -> None:
        seen.append(lag_s)
        if lag_s > 0.03:
            noticed.set()

    task = asyncio.create_task(LoopLag(on_lag, interval_s=0.001).run())
    await asyncio.sleep(0)
    time.sleep(0.05)  # noqa: ASYNC251 blocking the loop is the point
    await asyncio.wait_for(noticed.wait(), 10)
    task.cancel()
    await asyncio.wait([task])
    assert max(seen) > 0.03
