"""A circuit breaker: a replica that fails is left alone, then tried with one request."""

from __future__ import annotations

import random
import time
from typing import Literal, TypeAlias

from slipstream.call import Clock

BreakerState: TypeAlias = Literal["closed", "open", "half_open"]

THRESHOLD = 3
"""Failures in a row, where none of them is certain."""
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0


class Breaker:
    """Closed lets everything through, open nothing; half open lets one request through and waits for its fate.

    The pause doubles from one failure to the next, with jitter, so that many gateways do not return together.
    """

    def __init__(self, clock: Clock = time.monotonic, entropy: random.Random | None = None) -> None:
        self._clock = clock
        self._entropy = entropy or random.Random()
        self._failures = 0
        self._pause_s = FIRST_PAUSE_S
        self._state: BreakerState = "closed"
        self._until_s = 0.0
        self._trial = False

    @property
    def state(self) -> BreakerState:
        if self._state == "open" and self._clock() >= self._until_s:
            self._state = "half_open"
        return self._state

    @property
    def allows(self) -> bool:
        """Whether a request may begin now."""
        state = self.state
        return state == "closed" or (state == "half_open" and not self._trial)

    @property
    def opens_in_s(self) -> float:
        """Seconds until a request may be tried; 0 when one may now, or one is being tried."""
        return max(0.0, self._until_s - self._clock()) if self.state == "open" else 0.0

    def begin(self) -> None:
        """A request begins; exactly one of `success`, `failure` and `abandoned` follows."""
        self._trial = self.state == "half_open"

    def success(self) -> None:
        self._state, self._failures, self._trial, self._pause_s = "closed", 0, False, FIRST_PAUSE_S

    def failure(self, certain: bool = False) -> None:
        """A request failed, or a health check did."""
        self._failures += 1
        if certain or self._failures >= THRESHOLD or self.state == "half_open":
            self._open()

    def abandoned(self) -> None:
        """A request ended without a verdict on the replica."""
        self._trial = False

    def well(self) -> None:
        """A health check passed: an open breaker may be tried before its pause is over."""
        if self.state == "open":
            self._state = "half_open"

    def _open(self) -> None:
        if self._state != "open":
            self._until_s = self._clock() + self._pause_s * self._entropy.uniform(0.75, 1.25)
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        self._state, self._trial = "open", False
