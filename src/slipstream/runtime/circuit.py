"""A part that keeps failing is left alone for a while, then tried once: nobody waits for what is known to be down."""

from __future__ import annotations

import time

from slipstream.call import Clock


class Circuit:
    """Closed: everybody may try. Open: nobody, until the pause is over; then one may, and its outcome decides.

    The pause doubles with each failed trial, up to its bound.
    Source: Nygard, Release It!, 2007, "Circuit Breaker".
    """

    def __init__(
        self,
        failures: int = 3,
        pause_s: float = 1.0,
        max_pause_s: float = 30.0,
        clock: Clock = time.monotonic,
    ) -> None:
        self._limit = failures
        self._first_pause_s = pause_s
        self._max_pause_s = max_pause_s
        self._clock = clock
        self._failures = 0
        """In a row."""
        self._pause_s = pause_s
        self._open_until_s: float | None = None
        self._trial = False

    @property
    def open(self) -> bool:
        return self._open_until_s is not None

    def allows(self) -> bool:
        """Whether this caller may try; who is told so must report how it went."""
        if self._open_until_s is None:
            return True
        if self._trial or self._clock() < self._open_until_s:
            return False
        self._trial = True
        return True

    def succeeded(self) -> None:
        self._failures = 0
        self._pause_s = self._first_pause_s
        self._open_until_s = None
        self._trial = False

    def failed(self) -> None:
        self._failures += 1
        if self._trial:
            self._pause_s = min(2 * self._pause_s, self._max_pause_s)
        if self._trial or self._failures == self._limit:
            self._open_until_s = self._clock() + self._pause_s
        self._trial = False

    def abandoned(self) -> None:
        """The caller left before it knew; a trial goes to the next one."""
        self._trial = False
