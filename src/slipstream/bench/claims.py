"""Nouns of proof: a claim says what it takes to hold, a finding says what was measured, on both sides."""

from __future__ import annotations

import math
import statistics
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from slipstream.settings import Settings


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: repeats of one measurement."""

    name: str
    unit: str
    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def low(self) -> float:
        return min(self.samples)

    @property
    def high(self) -> float:
        return max(self.samples)


@dataclass(frozen=True, slots=True)
class Bar:
    """One figure against its bound."""

    what: str
    figure: float
    unit: str
    op: Literal[">=", "<=", "report"]
    bound: float | None = None

    @property
    def holds(self) -> bool | None:
        """None when the figure is only reported."""
        if self.op == "report" or self.bound is None:
            return None
        return self.figure >= self.bound if self.op == ">=" else self.figure <= self.bound


@dataclass(frozen=True, slots=True)
class Finding:
    """What one claim's measurement gave."""

    sides: tuple[Side, ...]
    bars: tuple[Bar, ...]
    note: str = ""

    @property
    def holds(self) -> bool | None:
        """None when nothing here has a bound: a report, not a verdict."""
        verdicts = [bar.holds for bar in self.bars if bar.holds is not None]
        return all(verdicts) if verdicts else None


Measure: TypeAlias = Callable[[Settings, "Say"], Awaitable[Finding]]
Say: TypeAlias = Callable[[str], None]
"""Tells the person waiting what is being measured now."""


@dataclass(frozen=True, slots=True)
class Claim:
    id: str
    says: str
    measure: Measure
    minutes: float
    """Roughly how long it takes here: shown before it starts."""


@dataclass(frozen=True, slots=True)
class Result:
    claim: Claim
    finding: Finding | None
    seconds: float
    error: str = ""


def percentile(samples: Sequence[float], p: float) -> float:
    """Nearest-rank percentile of a non-empty sample; p in [0, 100]."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(p / 100 * len(ordered)) - 1)]
