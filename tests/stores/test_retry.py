"""Retries: what is tried again, after how long, and that nobody waits beyond the bound."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from slipstream.stores.retry import RetryPolicy, retrying

POLICY = RetryPolicy(within_s=30, attempts=4, first_pause_s=0.1, max_pause_s=0.3)


def failing(times: int, error: Exception) -> Callable[[], Coroutine[Any, Any, str]]:
    left = [error] * times

    async def operation() -> str:
        if left:
            raise left.pop()
        return "done"

    return operation


class Pauses:
    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


@pytest.mark.anyio
async def test_pauses_grow_to_a_bound_and_are_drawn_from_it() -> None:
    pauses = Pauses()
    draws = iter([1.0, 0.5, 1.0])
    result = await retrying(
        failing(3, OSError()), policy=POLICY, retry_on=lambda e: True, sleep=pauses, random=lambda: next(draws)
    )
    assert result == "done"
    assert pauses.seconds == pytest.approx([0.1, 0.2 * 0.5, 0.3])


@pytest.mark.anyio
async def test_the_last_error_comes_out_when_attempts_are_used_up() -> None:
    with pytest.raises(OSError, match="away"):
        await retrying(failing(4, OSError("away")), policy=POLICY, retry_on=lambda e: True, sleep=Pauses())


@pytest.mark.anyio
async def test_what_will_not_pass_is_not_tried_again() -> None:
    pauses = Pauses()
    with pytest.raises(ValueError, match="wrong"):
        await retrying(
            failing(1, ValueError("wrong")), policy=POLICY, retry_on=lambda e: isinstance(e, OSError), sleep=pauses
        )
    assert pauses.seconds == []


async def _for_ever() -> None:
    await asyncio.Event().wait()


@pytest.mark.anyio
async def test_an_attempt_that_never_ends_is_over_at_the_bound() -> None:
    with pytest.raises(TimeoutError):
        await retrying(_for_ever, policy=RetryPolicy(within_s=0.01), retry_on=lambda e: True)


@pytest.mark.anyio
async def test_the_error_seen_says_more_than_the_bound() -> None:
    first = failing(1, OSError("refused"))

    async def operation() -> None:
        await first()
        await _for_ever()

    with pytest.raises(OSError, match="refused"):
        await retrying(operation, policy=RetryPolicy(within_s=0.05, first_pause_s=0), retry_on=lambda e: True)


@pytest.mark.anyio
async def test_a_caller_who_leaves_is_not_retried_for() -> None:
    entered = asyncio.Event()

    async def operation() -> None:
        entered.set()
        await _for_ever()

    task = asyncio.create_task(retrying(operation, policy=POLICY, retry_on=lambda e: True))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
