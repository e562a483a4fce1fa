"""How late the event loop runs: something that computes on it shows here first."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable

from slipstream.call import Clock

log = logging.getLogger(__name__)

LOUD_ABOVE_S = 0.25


class LoopLag:
    """Asks to be woken every `interval_s` and keeps how much later it was woken, for the last `keep` times."""

    def __init__(
        self,
        on_lag: Callable[[float], None] | None = None,
        *,
        interval_s: float = 0.02,
        keep: int = 3_000,
        clock: Clock = time.perf_counter,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._on_lag = on_lag
        self._interval_s = interval_s
        self._clock = clock
        self._sleep = sleep
        self._lags_s: deque[float] = deque(maxlen=keep)

    async def run(self) -> None:
        """Measures until cancelled; belongs under a Supervisor."""
        while True:
            due_s = self._clock() + self._interval_s
            await self._sleep(self._interval_s)
            self._note(max(0.0, self._clock() - due_s))

    def p99_ms(self) -> float:
        """The 99th percentile of the lags kept (nearest rank); 0 before the first."""
        if not self._lags_s:
            return 0.0
        ordered = sorted(self._lags_s)
        return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] * 1_000

    def max_ms(self) -> float:
        return max(self._lags_s, default=0.0) * 1_000

    def reset(self) -> None:
        """Forgets what was measured: a benchmark starts from here."""
        self._lags_s.clear()

    def _note(self, lag_s: float) -> None:
        self._lags_s.append(lag_s)
        if self._on_lag is not None:
            self._on_lag(lag_s)
        if lag_s > LOUD_ABOVE_S:
            log.warning("The event loop was blocked for %.0f ms; something computes on it.", lag_s * 1_000)
