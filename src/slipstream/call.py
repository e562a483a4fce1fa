"""The Call that travels beside the nouns: who asks, until when, what it cost, what was given up."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from slipstream.errors import DeadlineExceeded

Clock: TypeAlias = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point on a monotonic clock; `at_s` None never comes."""

    at_s: float | None
    clock: Clock = time.monotonic

    @classmethod
    def after(cls, seconds: float | None, clock: Clock = time.monotonic) -> Deadline:
        return cls(None if seconds is None else clock() + seconds, clock)

    def remaining_s(self) -> float:
        return float("inf") if self.at_s is None else self.at_s - self.clock()

    def check(self, doing: str) -> None:
        """Raises DeadlineExceeded when there is no time left."""
        if self.remaining_s() <= 0:
            raise DeadlineExceeded(
                f"The deadline passed while {doing}. Ask with a larger deadline_ms, or try again when load is lower."
            )


@dataclass(slots=True)
class Span:
    """One stage of a call; times are seconds since the call began."""

    name: str
    start_s: float
    end_s: float | None = None
    detail: dict[str, str | int | float | bool] = field(default_factory=dict)

    @property
    def duration_s(self) -> float:
        return 0.0 if self.end_s is None else self.end_s - self.start_s


class Stage:
    """Closes a span; a class and not a generator, since a request opens a dozen."""

    __slots__ = ("_call", "_span")

    def __init__(self, call: Call, span: Span) -> None:
        self._call = call
        self._span = span

    def __enter__(self) -> Span:
        return self._span

    def __exit__(self, *raised: object) -> None:
        call = self._call
        self._span.end_s = call.clock() - call.began_s


@dataclass(slots=True)
class Call:
    """One admitted request: the only mutable thing beside the path.

    Stages write spans, notes and degradations to it; nothing reads it to decide what to compute,
    except `deadline`.
    """

    tenant: str
    deadline: Deadline
    request_id: str = field(default_factory=lambda: f"req_{uuid.uuid4().hex}")
    clock: Clock = time.monotonic
    spans: list[Span] = field(default_factory=list)
    degraded: list[str] = field(default_factory=list)
    """What was dropped to meet the deadline or to survive a failing part, in order."""
    began_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.began_s = self.clock()

    def elapsed_s(self) -> float:
        return self.clock() - self.began_s

    def stage(self, name: str, **detail: str | int | float | bool) -> Stage:
        """Times a stage: `with call.stage("rerank") as span`. The span is kept even when the stage raises."""
        span = Span(name, self.clock() - self.began_s, None, detail)
        self.spans.append(span)
        return Stage(self, span)

    def mark(self, name: str, **detail: str | int | float | bool) -> None:
        """Records an instant, such as the first token."""
        now = self.elapsed_s()
        self.spans.append(Span(name, now, now, detail))

    def degrade(self, what: str) -> None:
        if what not in self.degraded:
            self.degraded.append(what)
