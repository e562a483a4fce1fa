"""Warm-up, readiness and supervision: ready only when all is well, and never silently not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from slipstream.errors import Unavailable
from slipstream.runtime.supervise import Supervisor
from slipstream.runtime.warmup import Readiness, Step, StepDone, warm_up

pytestmark = pytest.mark.anyio


async def nothing() -> None:
    return


async def forever() -> None:
    await asyncio.Event().wait()


async def fails() -> None:
    raise Unavailable("the disk is gone")


async def ready() -> Readiness:
    readiness = Readiness()
    await warm_up([], readiness)
    return readiness


async def test_steps_run_in_order_and_then_it_is_ready() -> None:
    readiness, seen, done = Readiness(), list[str](), list[StepDone]()

    async def step() -> None:
        assert not readiness.ready
        seen.append(readiness.reason)

    assert readiness.phase == "starting"
    await warm_up([Step("encoder", step), Step("language model", step)], readiness, on_step=done.append)
    assert seen == ["The server is warming up: encoder.", "The server is warming up: language model."]
    assert [(step.name, step.number, step.of) for step in done] == [("encoder", 1, 2), ("language model", 2, 2)]
    assert readiness.ready
    assert readiness.reason == ""
    assert await readiness.settled()


async def test_a_failing_step_is_raised_and_shown(caplog: pytest.LogCaptureFixture) -> None:
    readiness = Readiness()
    with caplog.at_level(logging.CRITICAL), pytest.raises(Unavailable):
        await warm_up([Step("store", fails), Step("never", nothing)], readiness)
    assert readiness.phase == "failed"
    assert "store" in readiness.reason
    assert "the disk is gone" not in readiness.reason, "anyone may ask for the reason; details are for the log"
    assert not await readiness.settled()
    assert "the disk is gone" in caplog.text


async def test_failed_is_final_and_the_first_reason_is_kept() -> None:
    readiness = await ready()
    readiness.fail("the first died")
    readiness.fail("the second died")
    readiness.warmed()
    assert not readiness.ready
    assert "the first died" in readiness.reason


async def test_draining_is_not_a_failure() -> None:
    readiness = await ready()
    readiness.drain()
    readiness.fail("a task was cancelled")
    assert readiness.phase == "draining"
    assert not readiness.ready


async def test_an_unhealthy_part_takes_readiness_down() -> None:
    readiness, healthy = Readiness(), [True]
    readiness.watch("encoder batcher", lambda: healthy[0])
    await warm_up([], readiness)
    assert readiness.ready
    healthy[0] = False
    assert not readiness.ready
    assert "encoder batcher" in readiness.reason


@pytest.mark.parametrize(("work", "said"), [(fails, "died"), (nothing, "ended")])
async def test_a_task_that_dies_or_ends_takes_readiness_down(
    work: Callable[[], Coroutine[Any, Any, None]], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    readiness = await ready()
    async with Supervisor(readiness) as supervisor:
        with caplog.at_level(logging.CRITICAL):
            await asyncio.wait([supervisor.start("optimizer", work())])
            await asyncio.sleep(0)
    assert readiness.phase == "failed"
    assert "optimizer" in readiness.reason
    assert said in readiness.reason
    assert "the disk is gone" not in readiness.reason, "anyone may ask for the reason; details are for the log"
    assert "optimizer" in caplog.text


async def test_a_task_cancelled_from_outside_takes_readiness_down() -> None:
    readiness = await ready()
    async with Supervisor(readiness) as supervisor:
        task = supervisor.start("lag", forever())
        task.cancel()
        await asyncio.wait([task])
        await asyncio.sleep(0)
        assert readiness.phase == "failed"


async def test_a_job_that_may_finish_may() -> None:
    readiness = await ready()
    async with Supervisor(readiness) as supervisor:
        await asyncio.wait([supervisor.start("import", nothing(), may_finish=True)])
        await asyncio.sleep(0)
        assert supervisor.running() == frozenset()
    assert readiness.ready


async def test_closing_cancels_and_leaves_readiness_alone() -> None:
    readiness = await ready()
    async with Supervisor(readiness) as supervisor:
        task = supervisor.start("lag", forever())
        assert supervisor.running() == {"lag"}
    assert task.cancelled()
    assert readiness.ready
