"""Workers: order, context, and an answer for every caller, also at shutdown."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

import pytest

from slipstream.errors import Bug, Unavailable
from slipstream.runtime.workers import Worker

pytestmark = pytest.mark.anyio

_where: ContextVar[str] = ContextVar("_where", default="nowhere")


async def test_runs_on_a_named_thread_in_the_callers_context() -> None:
    worker = Worker("test")
    _where.set("here")
    assert await worker.run(lambda: (_where.get(), threading.current_thread().name)) == ("here", "slipstream-test_0")
    await worker.close()


async def test_closing_answers_those_not_yet_begun() -> None:
    worker = Worker("test")
    began, go_on = threading.Event(), threading.Event()

    def first() -> str:
        began.set()
        go_on.wait(10)
        return "finished"

    running = asyncio.create_task(worker.run(first))
    queued = asyncio.create_task(worker.run(lambda: "never"))
    await asyncio.to_thread(began.wait, 10)
    closing = asyncio.create_task(worker.close())
    with pytest.raises(Unavailable):
        await queued
    go_on.set()
    assert await running == "finished"
    await closing
    with pytest.raises(Unavailable):
        await worker.run(lambda: "late")


async def test_a_cancelled_caller_stops_waiting() -> None:
    worker = Worker("test")
    go_on = threading.Event()
    running = asyncio.create_task(worker.run(go_on.wait, 10))
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    go_on.set()
    await worker.close()


async def test_stop_iteration_does_not_hang_the_caller() -> None:
    worker = Worker("test")
    with pytest.raises(Bug):
        await asyncio.wait_for(worker.run(next, iter(())), 10)
    await worker.close()
