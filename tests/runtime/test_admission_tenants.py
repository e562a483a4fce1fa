"""A flood of one tenant costs the others neither their place nor more than one turn."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

import pytest

from slipstream.call import Deadline
from slipstream.errors import Overloaded
from slipstream.runtime.admission import Admission

pytestmark = pytest.mark.anyio

NEVER = Deadline(None)


@dataclass
class Crowd:
    """Requests that hold their permit until they are released, oldest first."""

    admission: Admission
    running: list[tuple[str, asyncio.Event]] = field(default_factory=list)
    started: list[str] = field(default_factory=list)

    def ask(self, tenant: str, tokens: int = 100) -> asyncio.Task[None]:
        async def one() -> None:
            async with self.admission.admit(tenant, tokens, NEVER):
                leave = asyncio.Event()
                self.running.append((tenant, leave))
                self.started.append(tenant)
                await leave.wait()

        return asyncio.create_task(one())

    async def release(self) -> None:
        self.running.pop(0)[1].set()
        await settle()

    async def end(self, *tasks: asyncio.Task[None]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_full_queue_makes_room_for_whoever_fills_it_less() -> None:
    crowd = Crowd(Admission(400, 1_000))
    flood = [crowd.ask("flood") for _ in range(30)]
    await settle()
    refused = [task for task in flood if task.done()]
    assert len(refused) == 30 - 4 - 10  # four run, ten wait
    quiet = crowd.ask("quiet")
    await settle()
    assert not quiet.done()
    displaced = [task for task in flood if task.done() and task not in refused]
    assert displaced == [flood[13]]  # the newest that waited
    assert isinstance(displaced[0].exception(), Overloaded)
    await crowd.release()
    assert crowd.started[-1] == "quiet"  # next in turn, not behind the flood
    await crowd.end(*flood, quiet)
    assert (crowd.admission.load().running, crowd.admission.load().queued_tokens) == (0, 0)


async def test_nobody_is_displaced_by_one_who_would_not_fit_or_has_as_much() -> None:
    crowd = Crowd(Admission(100, 400))
    flood = [crowd.ask("flood") for _ in range(5)]
    await settle()
    too_much = crowd.ask("quiet", 500)  # counts as the whole capacity, 100: fits
    await settle()
    assert not too_much.done()
    second, third = crowd.ask("quiet"), crowd.ask("quiet")
    await settle()
    # two each: another one of either is refused, and displaces nobody
    assert not second.done()
    assert third.done()
    assert isinstance(third.exception(), Overloaded)
    assert crowd.admission.load().queued == 4
    await crowd.end(*flood, too_much, second)


async def test_a_known_tenant_passes_the_early_refusal_while_another_floods() -> None:
    admission = Admission(100, 200)
    crowd = Crowd(admission)
    flood = [crowd.ask("flood") for _ in range(3)]
    await settle()
    admission.refuse_if_full(100, "quiet")
    for tenant in (None, "flood"):
        with pytest.raises(Overloaded):
            admission.refuse_if_full(100, tenant)
    await crowd.end(*flood)


async def test_under_a_flood_each_request_of_another_tenant_waits_for_one_turn() -> None:
    crowd = Crowd(Admission(400, 2_000))
    tasks = [crowd.ask("flood") for _ in range(24)]
    await settle()
    for _ in range(20):
        before = len(crowd.started)
        mine = crowd.ask("quiet")
        tasks += [mine, crowd.ask("flood"), crowd.ask("flood")]
        await settle()
        await crowd.release()
        assert crowd.started[before] == "quiet"
        while crowd.running and any(tenant == "quiet" for tenant, _ in crowd.running):
            await crowd.release()
    await crowd.end(*tasks)


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_the_mix_the_queue_stays_within_its_bound_and_every_waiter_is_answered(seed: int) -> None:
    pick = random.Random(seed)
    crowd = Crowd(Admission(500, 900))
    tasks = []
    for _ in range(400):
        tasks.append(crowd.ask(pick.choice("aaaaabcd"), pick.randint(1, 300)))
        await settle()
        load = crowd.admission.load()
        assert load.running_tokens <= 500
        assert load.queued_tokens <= 900
        if crowd.running and pick.random() < 0.5:
            await crowd.release()
    while crowd.running:
        await crowd.release()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(error is None or isinstance(error, Overloaded) for error in done)
    assert set(crowd.started) == set("abcd")
    load = crowd.admission.load()
    assert (load.running, load.queued, load.queued_tokens) == (0, 0, 0)
