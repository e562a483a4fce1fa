"""Admission: never over capacity, refused at once, fair, and every waiter answered."""

from __future__ import annotations

import asyncio
import gc
import random
import time
import tracemalloc
from dataclasses import dataclass, field

import pytest

from slipstream.call import Deadline
from slipstream.errors import DeadlineExceeded, Overloaded, Unavailable
from slipstream.runtime.admission import Admission, Permit

pytestmark = pytest.mark.anyio

NEVER = Deadline(None)


@dataclass
class Clock:
    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class Holder:
    """Holds a permit until told to leave."""

    admission: Admission
    tenant: str = "a"
    tokens: int = 100
    deadline: Deadline = NEVER
    leave: asyncio.Event = field(default_factory=asyncio.Event)
    permit: Permit | None = None

    async def __call__(self) -> None:
        async with self.admission.admit(self.tenant, self.tokens, self.deadline) as self.permit:
            await self.leave.wait()

    def start(self) -> asyncio.Task[None]:
        return asyncio.create_task(self())


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def start_all(*holders: Holder) -> list[asyncio.Task[None]]:
    tasks = [holder.start() for holder in holders]
    await settle()
    return tasks


async def test_admits_at_once_while_it_fits() -> None:
    admission = Admission(400, 0)
    async with admission.admit("a", 300, NEVER) as permit, admission.admit("b", 100, NEVER):
        assert permit.waited_s < 0.1
        assert admission.load().running_tokens == 400
    assert admission.load().running_tokens == 0
    assert admission.load().admitted == 2


async def test_waits_in_order_and_starts_as_tokens_are_released() -> None:
    admission = Admission(400, 1_000)
    first, second, third = (Holder(admission, tokens=tokens) for tokens in (400, 300, 200))
    tasks = await start_all(first, second, third)
    assert first.permit
    assert not second.permit
    first.permit.release(300)
    await settle()
    assert second.permit, "tokens given back early let the next one in"
    assert not third.permit
    for holder in (first, second, third):
        holder.leave.set()
    await asyncio.gather(*tasks)
    assert admission.load().running == admission.load().running_tokens == 0


async def test_release_never_gives_back_more_than_is_held() -> None:
    admission = Admission(400, 0)
    async with admission.admit("a", 100, NEVER) as permit:
        permit.release(1_000)
        permit.release()
        permit.release(-5)
        assert admission.load().running_tokens == 0
    assert admission.load().running_tokens == 0


async def test_a_request_larger_than_the_capacity_runs_alone() -> None:
    admission = Admission(400, 4_000)
    small, huge = Holder(admission, "a", 1), Holder(admission, "b", 9_999)
    tasks = await start_all(small, huge)
    assert not huge.permit
    small.leave.set()
    await settle()
    assert huge.permit
    assert admission.load().running_tokens == 400
    huge.leave.set()
    await asyncio.gather(*tasks)


async def test_five_hundred_in_a_second_at_a_capacity_of_four() -> None:
    """The excess is refused at once with a time to come back; everybody is answered; memory is flat."""
    admission = Admission(max_tokens=400, max_queued_tokens=800)
    outcomes: list[str] = []
    refusals_s: list[float] = []

    async def request(number: int) -> None:
        began_s = time.perf_counter()
        try:
            async with admission.admit(f"tenant {number % 5}", 100, NEVER):
                await asyncio.sleep(0)
                outcomes.append("answered")
        except Overloaded as refused:
            refusals_s.append(time.perf_counter() - began_s)
            outcomes.append(f"refused {refused.status}, retry after {refused.retry_after_s}")

    async def burst() -> None:
        await asyncio.gather(*(request(number) for number in range(500)))

    await burst()
    assert len(outcomes) == 500
    assert outcomes.count("answered") == 12, "four that run and eight that wait"
    assert outcomes.count("refused 429, retry after 1.0") == 488
    assert outcomes.index("answered") == 488, "no refusal waited for anybody's work"
    assert sorted(refusals_s)[len(refusals_s) // 2] < 0.01

    async def bytes_after_burst() -> int:
        await burst()
        outcomes.clear()
        refusals_s.clear()
        gc.collect()
        ours = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*/slipstream/runtime/*")])
        return sum(trace.size for trace in ours.statistics("filename"))

    tracemalloc.start()
    before = await bytes_after_burst()
    for _ in range(4):
        after = await bytes_after_burst()
    tracemalloc.stop()
    assert after - before < 2_000
    load = admission.load()
    assert (load.running, load.running_tokens, load.queued, load.queued_tokens) == (0, 0, 0, 0)
    assert load.admitted + load.refused_queue_full == 3_000


async def test_retry_after_follows_the_measured_drain_rate() -> None:
    clock = Clock()
    admission = Admission(100, 1_000, clock=clock)
    holders = [Holder(admission) for _ in range(11)]
    tasks = await start_all(*holders)
    for holder in holders[:4]:
        clock.now_s += 2.0
        holder.leave.set()
        await settle()
    more = await start_all(*(Holder(admission) for _ in range(4)))
    with pytest.raises(Overloaded) as refused:
        async with admission.admit("a", 100, NEVER):
            pass
    assert refused.value.retry_after_s == pytest.approx(2.0, rel=0.01), "100 tokens too many at 50 a second"
    for task in [*tasks, *more]:
        task.cancel()
    await asyncio.gather(*tasks, *more, return_exceptions=True)
    assert admission.load().queued == admission.load().running == 0


async def test_refused_at_once_when_the_wait_would_outlast_the_deadline() -> None:
    clock = Clock()
    admission = Admission(100, 10_000, clock=clock)
    holders = [Holder(admission) for _ in range(12)]
    tasks = await start_all(*holders)
    for holder in holders[:2]:
        clock.now_s += 1.0
        holder.leave.set()
        await settle()
    with pytest.raises(Overloaded):
        async with admission.admit("a", 100, Deadline.after(5.0, clock)):
            pass
    assert admission.load().refused_deadline == 1
    patient = Holder(admission, deadline=Deadline.after(60.0, clock))
    light = Holder(admission, "another tenant", deadline=Deadline.after(5.0, clock))
    more = await start_all(patient, light)
    assert admission.load().queued == 11, "another tenant does not stand behind this one's queue"
    for task in [*tasks, *more]:
        task.cancel()
    await asyncio.gather(*tasks, *more, return_exceptions=True)


async def test_a_deadline_that_passes_in_the_queue() -> None:
    admission = Admission(100, 1_000)
    async with admission.admit("a", 100, NEVER):
        with pytest.raises(DeadlineExceeded):
            async with admission.admit("a", 100, Deadline.after(0.01)):
                pass
        assert admission.load().expired == 1
        assert admission.load().queued == 0


async def test_who_is_too_late_is_not_started() -> None:
    clock = Clock()
    admission = Admission(100, 1_000, clock=clock)
    first = Holder(admission)
    late = Holder(admission, deadline=Deadline.after(100, clock))
    next_one = Holder(admission)
    tasks = await start_all(first, late, next_one)
    clock.now_s = 101
    first.leave.set()
    with pytest.raises(DeadlineExceeded):
        await tasks[1]
    await settle()
    assert next_one.permit
    next_one.leave.set()
    await asyncio.gather(tasks[0], tasks[2])


async def test_a_waiter_who_leaves_makes_room() -> None:
    admission = Admission(100, 200)
    first, leaver, stayer = (Holder(admission) for _ in range(3))
    tasks = await start_all(first, leaver, stayer)
    tasks[1].cancel()
    await settle()
    assert admission.load().queued_tokens == 100
    first.leave.set()
    await settle()
    assert stayer.permit
    stayer.leave.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert admission.load().left == 1


async def test_a_large_waiter_who_leaves_lets_the_small_ones_in() -> None:
    admission = Admission(100, 1_000)
    first, large, small = Holder(admission, tokens=50), Holder(admission, tokens=90), Holder(admission, tokens=40)
    tasks = await start_all(first, large, small)
    assert not small.permit
    tasks[1].cancel()
    await settle()
    assert small.permit
    first.leave.set()
    small.leave.set()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_granted_and_cancelled_in_the_same_instant_gives_the_tokens_back() -> None:
    admission = Admission(100, 100)
    first, second = Holder(admission), Holder(admission)
    tasks = await start_all(first, second)
    assert first.permit
    first.permit.release()
    tasks[1].cancel()
    await settle()
    assert admission.load().running_tokens == 0
    first.leave.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert admission.load().running == admission.load().running_tokens == 0


async def test_one_tenant_keeps_to_its_share_while_another_waits() -> None:
    admission = Admission(400, 10_000, tenant_share=0.5)
    flood = [Holder(admission, "flood") for _ in range(8)]
    other = [Holder(admission, "other") for _ in range(4)]
    tasks = await start_all(*flood, *other)
    assert sum(holder.permit is not None for holder in flood) == 4, "alone it may take everything"
    for holder in flood[:4]:
        holder.leave.set()
        await settle()
    assert sum(holder.permit is not None for holder in flood[4:]) == 2
    assert sum(holder.permit is not None for holder in other) == 2
    for holder in (*flood, *other):
        holder.leave.set()
    await asyncio.gather(*tasks)


async def test_closing_answers_those_who_wait() -> None:
    admission = Admission(100, 1_000)
    running, waiting = Holder(admission), Holder(admission)
    tasks = await start_all(running, waiting)
    await admission.close()
    with pytest.raises(Unavailable):
        await tasks[1]
    with pytest.raises(Unavailable):
        async with admission.admit("a", 1, NEVER):
            pass
    running.leave.set()
    await tasks[0]


async def test_ten_thousand_waiters() -> None:
    admission = Admission(100, 10_000_000)
    order: list[int] = []

    async def request(number: int) -> None:
        async with admission.admit(f"tenant {number % 100}", 100, NEVER):
            order.append(number)

    began_s = time.perf_counter()
    await asyncio.gather(*(request(number) for number in range(10_000)))
    assert sorted(order) == list(range(10_000))
    assert time.perf_counter() - began_s < 20


@pytest.mark.parametrize("seed", range(12))
async def test_invariants_under_random_load(seed: int) -> None:
    """Never over capacity or over the queue's bound, counts add up, everybody is answered."""
    rng = random.Random(seed)
    capacity, bound = 1_000, rng.choice([0, 2_000, 20_000])
    admission = Admission(capacity, bound, tenant_share=rng.choice([1.0, 0.5, 0.25]))
    outcomes: list[str] = []

    def check() -> None:
        load = admission.load()
        assert 0 <= load.running_tokens <= capacity
        assert 0 <= load.queued_tokens <= bound
        assert load.queued >= 0

    async def request(tokens: int, deadline: Deadline, pauses: int) -> None:
        try:
            async with admission.admit(f"tenant {rng.randrange(4)}", tokens, deadline) as permit:
                for _ in range(pauses):
                    check()
                    permit.release(rng.randrange(50))
                    await asyncio.sleep(0)
            outcomes.append("done")
        except (Overloaded, DeadlineExceeded) as error:
            outcomes.append(error.code)
        except asyncio.CancelledError:
            outcomes.append("left")
            raise
        finally:
            check()

    tasks = []
    for _ in range(600):
        deadline = NEVER if rng.random() < 0.7 else Deadline.after(rng.random() * 0.05)
        tasks.append(asyncio.create_task(request(rng.randrange(1, 1_500), deadline, rng.randrange(6))))
        if rng.random() < 0.2:
            await asyncio.sleep(0)
            rng.choice(tasks).cancel()
    results = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 60)
    unexpected = [r for r in results if isinstance(r, Exception)]
    assert not unexpected
    load = admission.load()
    assert (load.running, load.running_tokens, load.queued, load.queued_tokens) == (0, 0, 0, 0)
    assert len(admission._queue._tenants) == 0


async def _admit_once(admission: Admission) -> None:
    async with admission.admit("a", 10, NEVER):
        pass


async def test_admitting_costs_microseconds() -> None:
    admission = Admission(1_000, 0)
    began_s = time.perf_counter()
    for _ in range(2_000):
        await _admit_once(admission)
    assert (time.perf_counter() - began_s) / 2_000 < 500e-6


async def test_what_could_only_be_refused_is_refused_before_it_is_read() -> None:
    admission = Admission(max_tokens=100, max_queued_tokens=50)
    admission.refuse_if_full(80)
    async with admission.admit("a", 80, Deadline.after(None)):
        admission.refuse_if_full(20)  # fits beside it
        admission.refuse_if_full(50)  # may wait
        with pytest.raises(Overloaded) as refused:
            admission.refuse_if_full(51)
        assert refused.value.retry_after_s
    admission.refuse_if_full(51)
