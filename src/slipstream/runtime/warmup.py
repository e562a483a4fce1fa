"""Readiness, and the named steps that lead to it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from slipstream.call import Clock

Phase: TypeAlias = Literal["starting", "warming", "ready", "draining", "failed"]

log = logging.getLogger(__name__)


class Readiness:
    """Whether requests may come: starting → warming → ready → draining, and failed from any of them.

    Failed is final: a process whose part died is restarted, not trusted. Parts that know their own
    health are asked each time (`watch`), so that a death is seen at the next probe.
    """

    def __init__(self) -> None:
        self._phase: Phase = "starting"
        self._reason = "The server is starting."
        self._probes: dict[str, Callable[[], bool]] = {}
        self._settled = asyncio.Event()

    @property
    def phase(self) -> Phase:
        self._probe()
        return self._phase

    @property
    def ready(self) -> bool:
        return self.phase == "ready"

    @property
    def reason(self) -> str:
        """What is missing, as a sentence; empty when ready."""
        self._probe()
        return self._reason

    def watch(self, part: str, healthy: Callable[[], bool]) -> None:
        """From readiness on, asks a part for its health whenever somebody asks for ours."""
        self._probes[part] = healthy

    def warming(self, step: str) -> None:
        self._move("warming", f"The server is warming up: {step}.", {"starting", "warming"})

    def warmed(self) -> None:
        self._move("ready", "", {"starting", "warming"})

    def drain(self) -> None:
        self._move("draining", "The server is shutting down.", {"starting", "warming", "ready"})

    def fail(self, what: str) -> None:
        """Takes readiness down for good, loudly; the first failure is kept. `what` is a clause: "x died"."""
        if self._phase in {"starting", "warming", "ready"}:
            log.critical("Not ready any more: %s. Restart the server.", what)
            self._move("failed", f"The server has failed: {what}. Restart it.", {self._phase})

    async def settled(self) -> bool:
        """Waits until the start has succeeded or failed; True when ready."""
        await self._settled.wait()
        return self.ready

    def _probe(self) -> None:
        if self._phase == "ready":
            for part, healthy in self._probes.items():
                if not healthy():
                    self.fail(f"the {part} is not healthy")
                    return

    def _move(self, phase: Phase, reason: str, allowed: set[Phase]) -> None:
        if self._phase in allowed:
            self._phase, self._reason = phase, reason
        if self._phase not in {"starting", "warming"}:
            self._settled.set()


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do before the first request, such as a model's largest batch."""

    name: str
    run: Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class StepDone:
    name: str
    seconds: float
    number: int
    """1-based."""
    of: int


async def warm_up(
    steps: Sequence[Step],
    readiness: Readiness,
    *,
    on_step: Callable[[StepDone], None] | None = None,
    clock: Clock = time.monotonic,
) -> tuple[StepDone, ...]:
    """Runs the steps in order, then says ready. A step that raises fails readiness, and is raised."""
    done: list[StepDone] = []
    for number, step in enumerate(steps, start=1):
        readiness.warming(step.name)
        began_s = clock()
        try:
            await step.run()
        except Exception:
            log.critical("Warming up %s failed.", step.name, exc_info=True)
            readiness.fail(f"{step.name} could not be warmed up; the server's log has the cause")
            raise
        done.append(StepDone(step.name, clock() - began_s, number, len(steps)))
        log.info("Warmed up %s in %.2f s (%d of %d).", step.name, done[-1].seconds, number, len(steps))
        if on_step is not None:
            on_step(done[-1])
    readiness.warmed()
    return tuple(done)
