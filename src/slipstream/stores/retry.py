"""Calls to a store across a network: tried again after a pause when that is safe, and over within a bound."""

from __future__ import annotations

import asyncio
import random as _random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long. Whoever waits knows after `within_s` at the latest."""

    within_s: float = 10.0
    """Everything together: attempts and pauses."""
    attempts: int = 4
    """1 tries once."""
    first_pause_s: float = 0.05
    max_pause_s: float = 1.0

    def pause_s(self, failed: int, draw: float) -> float:
        """The pause after so many failures; `draw` in [0, 1) spreads callers who failed together.

        Source: Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015 ("full jitter").
        """
        return min(self.max_pause_s, self.first_pause_s * 2.0 ** (failed - 1)) * draw


async def retrying(
    operation: Callable[[], Awaitable[T]],
    *,
    policy: RetryPolicy,
    retry_on: Callable[[Exception], bool],
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    random: Callable[[], float] = _random.random,
) -> T:
    """Runs an operation that may run twice without harm; `retry_on` says which errors may pass by themselves.

    Raises the last attempt's error, and TimeoutError when the first attempt did not end within the bound.
    """
    failed: Exception | None = None
    try:
        async with asyncio.timeout(policy.within_s) as limit:
            for attempt in range(1, policy.attempts + 1):
                try:
                    return await operation()
                except Exception as error:
                    if attempt == policy.attempts or limit.expired() or not retry_on(error):
                        raise
                    failed = error
                await sleep(policy.pause_s(attempt, random()))
    except TimeoutError:
        if failed is not None and limit.expired():
            raise failed from None
        raise
    raise AssertionError("unreachable")
