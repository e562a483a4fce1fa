"""The batcher: lone requests do not wait, batches fill under load, and every waiter is answered."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from slipstream.errors import Bug, Overloaded, Unavailable
from slipstream.runtime.batcher import WINDOW_BATCHES, Batcher
from slipstream.runtime.workers import Worker

pytestmark = pytest.mark.anyio


@dataclass
class Upper:
    """Upper-cases; runs while its gate is open; fails on poison."""

    poison: Callable[[str], Exception | None] = lambda item: None
    batches: list[list[str]] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    started: asyncio.Event = field(default_factory=asyncio.Event)
    at_once: int = 0
    most_at_once: int = 0

    async def __call__(self, items: Sequence[str]) -> list[str]:
        self.batches.append(list(items))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.started.set()
        try:
            await self.gate.wait()
        finally:
            self.at_once -= 1
        for item in items:
            if error := self.poison(item):
                raise error
        return [item.upper() for item in items]


@dataclass
class Seen:
    """What a batcher reports."""

    sizes: list[int] = field(default_factory=list)
    waits_s: list[float] = field(default_factory=list)

    def batch_ran(self, batcher: str, waits_s: Sequence[float]) -> None:
        self.sizes.append(len(waits_s))
        self.waits_s += waits_s


def batcher(
    fn: Callable[[Sequence[str]], object], *, max_cost: int = 100, max_items: int = 8, max_waiting: int | None = None
) -> Batcher[str, str]:
    return Batcher("test", fn, cost=len, max_cost=max_cost, max_items=max_items, max_waiting=max_waiting)  # type: ignore[arg-type]


def open_gate(fn: Upper) -> Upper:
    fn.gate.set()
    return fn


async def settle() -> None:
    """Lets every task run as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_lone_request_runs_at_once_in_its_own_task() -> None:
    ran_in: list[asyncio.Task[object] | None] = []

    async def fn(items: Sequence[str]) -> list[str]:
        ran_in.append(asyncio.current_task())
        return list(items)

    async with batcher(fn) as it:
        assert await it.submit("a") == "a"
    assert ran_in == [asyncio.current_task()]


async def test_what_gathers_while_busy_becomes_one_batch() -> None:
    fn = Upper()
    async with batcher(fn) as it:
        first = asyncio.create_task(it.submit("a"))
        await fn.started.wait()
        rest = [asyncio.create_task(it.submit(item)) for item in "bcd"]
        await settle()
        fn.gate.set()
        assert await asyncio.gather(first, *rest) == ["A", "B", "C", "D"]
    assert fn.batches == [["a"], ["b", "c", "d"]]
    assert fn.most_at_once == 1


async def test_batches_are_bounded_by_padded_cost_and_items() -> None:
    fn = open_gate(Upper())
    async with batcher(fn, max_cost=12, max_items=4) as it:
        items = ["x" * n for n in (1, 6, 2, 6, 1, 5, 1, 1, 3)]
        assert await it.submit_many(items) == [item.upper() for item in items]
    for batch in fn.batches:
        assert len(batch) <= 4
        assert len(batch) * max(map(len, batch)) <= 12


async def test_an_item_larger_than_the_bound_runs_alone() -> None:
    fn = open_gate(Upper())
    async with batcher(fn, max_cost=4) as it:
        assert await it.submit_many(["a", "x" * 50, "b"]) == ["A", "X" * 50, "B"]
    assert ["x" * 50] in fn.batches


async def test_length_sorting_starves_nobody() -> None:
    fn = Upper()
    async with batcher(fn, max_cost=64, max_items=4) as it:
        first = asyncio.create_task(it.submit("a"))
        await fn.started.wait()
        odd = asyncio.create_task(it.submit("x" * 64))
        short = [asyncio.create_task(it.submit("y")) for _ in range(40)]
        await settle()
        fn.gate.set()
        await asyncio.gather(first, odd, *short)
    assert fn.batches[1] == ["x" * 64], "the oldest goes first, whatever its length"


async def test_a_poisoned_item_hurts_only_itself() -> None:
    fn = Upper(lambda item: ValueError(item) if item == "bad" else None)
    async with batcher(fn) as it:
        first = asyncio.create_task(it.submit("a"))
        await fn.started.wait()
        rest = [asyncio.create_task(it.submit(item)) for item in ("b", "bad", "c")]
        await settle()
        fn.gate.set()
        results = await asyncio.gather(first, *rest, return_exceptions=True)
        assert results[:2] == ["A", "B"]
        assert results[3] == "C"
        assert isinstance(results[2], ValueError)
        assert await it.submit("next") == "NEXT"
        assert it.healthy()


async def test_a_failing_batch_answers_all_and_the_next_caller_is_served() -> None:
    fn = open_gate(Upper(lambda item: ValueError(item) if item.startswith("bad") else None))
    async with batcher(fn) as it:
        with pytest.raises(ValueError, match="bad"):
            await it.submit_many(["bad 1", "bad 2", "bad 3"])
        assert await it.submit("good") == "GOOD"


async def test_an_outage_is_told_to_all_without_trying_each() -> None:
    fn = open_gate(Upper(lambda item: Unavailable("down")))
    async with batcher(fn) as it:
        results = await asyncio.gather(*(it.submit_many(["a", "b"]) for _ in range(2)), return_exceptions=True)
        assert all(isinstance(result, Unavailable) for result in results)
    assert len(fn.batches) == 1


@pytest.mark.parametrize("count", [1, 3])
async def test_the_wrong_number_of_results_is_a_bug_for_all(count: int) -> None:
    async def fn(items: Sequence[str]) -> list[str]:
        return [*items, "one too many"]

    async with batcher(fn) as it:
        results = await asyncio.gather(it.submit_many(["a"] * count), return_exceptions=True)
        assert isinstance(results[0], Bug)


async def test_callers_who_left_are_not_computed() -> None:
    fn = Upper()
    async with batcher(fn) as it:
        first = asyncio.create_task(it.submit("a"))
        await fn.started.wait()
        leaver, stayer = (asyncio.create_task(it.submit(item)) for item in ("left", "stayed"))
        group = asyncio.create_task(it.submit_many(["left too", "and so"]))
        await settle()
        leaver.cancel()
        group.cancel()
        await settle()
        assert it.waiting() == 1
        fn.gate.set()
        assert await stayer == "STAYED"
        await first
    assert fn.batches == [["a"], ["stayed"]]


async def test_a_lone_caller_who_leaves_does_not_take_the_others_along() -> None:
    fn = Upper()
    async with batcher(fn) as it:
        lone = asyncio.create_task(it.submit("left"))
        await fn.started.wait()
        other = asyncio.create_task(it.submit("stayed"))
        await settle()
        lone.cancel()
        fn.gate.set()
        assert await other == "STAYED"


async def test_many_who_leave_at_once_do_not_take_those_behind_them_along() -> None:
    leavers: list[asyncio.Task[str]] = []
    gate = asyncio.Event()

    async def fn(items: Sequence[str]) -> list[str]:
        if items == ["a"]:
            await gate.wait()
        if items == ["b"]:
            for leaver in leavers:
                leaver.cancel()  # and the next batch is chosen before they have run
        return list(items)

    async with batcher(fn, max_items=1) as it:
        group = asyncio.create_task(it.submit_many(["a", "b"]))
        await settle()
        leavers += [asyncio.create_task(it.submit("left")) for _ in range(3 * WINDOW_BATCHES)]
        stayer = asyncio.create_task(it.submit("stayed"))
        await settle()
        gate.set()
        async with asyncio.timeout(10):
            assert await group == ["a", "b"]
            assert await stayer == "stayed"
        assert all(leaver.cancelled() for leaver in leavers)


async def test_too_many_waiting_is_refused_at_once() -> None:
    fn = Upper()
    async with batcher(fn, max_waiting=2) as it:
        running = asyncio.create_task(it.submit("a"))
        await fn.started.wait()
        waiting = [asyncio.create_task(it.submit(item)) for item in "bc"]
        await settle()
        with pytest.raises(Overloaded) as refused:
            await it.submit("d")
        assert refused.value.retry_after_s
        fn.gate.set()
        await asyncio.gather(running, *waiting)


async def test_closing_answers_every_waiter() -> None:
    fn = Upper()
    it = batcher(fn, max_items=2)
    async with it:
        group = asyncio.create_task(it.submit_many(["a", "b", "c", "d"]))
        await fn.started.wait()
    with pytest.raises(Unavailable):
        await group
    with pytest.raises(Unavailable):
        await it.submit("e")


async def test_a_dead_loop_answers_every_waiter_and_shows(caplog: pytest.LogCaptureFixture) -> None:
    class Stop(BaseException):
        pass

    async def stop(items: Sequence[str]) -> list[str]:
        raise Stop

    async with batcher(stop) as it:
        assert it.healthy()
        with caplog.at_level(logging.CRITICAL), pytest.raises(Unavailable):
            await it.submit_many(["a", "b"])
        assert not it.healthy()
        with pytest.raises(Unavailable):
            await it.submit("c")
    assert "died" in caplog.text


async def test_a_worker_shut_down_below_is_an_error_not_a_cancellation() -> None:
    async def fn(items: Sequence[str]) -> list[str]:
        raise asyncio.CancelledError

    async with batcher(fn) as it:
        with pytest.raises(Unavailable):
            await it.submit("a")
        with pytest.raises(Unavailable):
            await it.submit_many(["a", "b"])
        assert it.healthy()


async def test_sizes_and_waits_are_reported() -> None:
    seen, now = Seen(), [0.0]
    fn = Upper()
    it: Batcher[str, str] = Batcher(
        "test", fn, cost=len, max_cost=9, max_items=9, max_waiting=None, metrics=seen, clock=lambda: now[0]
    )
    async with it:
        first = asyncio.create_task(it.submit("a"))
        await fn.started.wait()
        rest = [asyncio.create_task(it.submit(item)) for item in "bc"]
        await settle()
        now[0] = 0.25
        fn.gate.set()
        await asyncio.gather(first, *rest)
    assert seen.sizes == [1, 2]
    assert seen.waits_s == [0.0, 0.25, 0.25]


@pytest.mark.parametrize("seed", range(8))
async def test_every_waiter_is_answered_whatever_happens(seed: int) -> None:
    """Random sizes, poison, outages and leavers on a real worker thread."""
    rng = random.Random(seed)
    worker = Worker("test")

    def compute(items: Sequence[str]) -> list[str]:
        if any("poison" in item for item in items):
            raise ValueError("poison")
        return [item.upper() for item in items]

    async def fn(items: Sequence[str]) -> list[str]:
        return await worker.run(compute, items)

    async def caller(it: Batcher[str, str], number: int) -> None:
        item = f"{'poison' if rng.random() < 0.1 else 'item'} {number} {'x' * rng.randrange(40)}"
        try:
            assert await it.submit(item) == item.upper()
            assert "poison" not in item
        except ValueError:
            assert "poison" in item

    async with batcher(fn, max_cost=200) as it:
        tasks = []
        for number in range(400):
            tasks.append(asyncio.create_task(caller(it, number)))
            if rng.random() < 0.2:
                rng.choice(tasks).cancel()
            if rng.random() < 0.3:
                await asyncio.sleep(0)
        results = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 30)
        assert not [result for result in results if isinstance(result, AssertionError)]
        assert it.waiting() == 0
    await worker.close()
    gc.collect()
