"""How fast a full server drains, in tokens a second: what waiting times are estimated from."""

from __future__ import annotations

import math

from slipstream.call import Clock

MEMORY_S = 10.0
"""Weight of what was measured falls to 1/e in this much saturated time."""
STALE_AFTER_S = 30.0


class DrainRate:
    """Tokens released per second, counted only while somebody waits.

    An idle server releases slowly because little is asked of it, which says nothing of how fast a
    queue would empty; hence only saturated time counts, and an old figure is forgotten.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tokens = 0.0
        self._seconds = 0.0
        self._since_s: float | None = None
        self._measured_s = -math.inf

    def saturated(self) -> None:
        """Somebody waits from now on; said again, it changes nothing."""
        if self._since_s is None:
            self._since_s = self._clock()

    def unsaturated(self) -> None:
        """Nobody waits any more."""
        self._count(0)
        self._since_s = None

    def released(self, tokens: int) -> None:
        self._count(tokens)

    def tokens_per_s(self) -> float | None:
        """None while nothing has been measured lately."""
        if self._clock() - self._measured_s > STALE_AFTER_S or self._seconds <= 0 or self._tokens <= 0:
            return None
        return self._tokens / self._seconds

    def _count(self, tokens: int) -> None:
        if self._since_s is None:
            return
        now = self._clock()
        elapsed = now - self._since_s
        keep = math.exp(-elapsed / MEMORY_S)
        self._tokens = self._tokens * keep + tokens
        self._seconds = self._seconds * keep + elapsed
        self._since_s = now
        if tokens:
            self._measured_s = now
