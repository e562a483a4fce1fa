"""Which of the measured settings to take: the cheapest that surely reaches the target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slipstream.tune.measure import Measured


@dataclass(frozen=True, slots=True)
class Choice:
    best: Measured
    reaches: bool
    """Whether it meets target and time; otherwise it is the one that finds most."""
    why: str


def choose(measured: Sequence[Measured], target_recall: float, max_ms: float | None) -> Choice:
    """Cheapest is least time for half of the searches, four at once.

    Recall is that of a sample, so a setting counts as reaching the target when it does by one standard error; if none
    does, when its mean does.
    """
    in_time = [m for m in measured if max_ms is None or m.crowded.p99_ms <= max_ms]
    for sure, said in ((1.0, "reaches the target by a standard error"), (0.0, "reaches the target, narrowly")):
        reaching = [m for m in in_time if m.recall - sure * m.error >= target_recall]
        if reaching:
            return Choice(min(reaching, key=_cost), True, f"the cheapest that {said}")
    if in_time:
        most = max(in_time, key=lambda m: (m.recall, -_cost(m)))
        return Choice(most, False, "no setting reaches the target; this one finds most")
    fastest = min(measured, key=lambda m: m.crowded.p99_ms)
    return Choice(fastest, False, "no setting is fast enough; this is the fastest")


def _cost(measured: Measured) -> float:
    return measured.crowded.p50_ms
