"""Labelled pairs → thresholds: the most true pairs served at no more than a bound of false ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slipstream.cache.guard import FormVerdict
from slipstream.cache.meaning import Closeness

_BOTH_WAYS = np.round(np.arange(0.0, 1.0001, 0.005), 3)
_WEAKEST = np.round(np.arange(-1.0, 1.0001, 0.01), 3)


@dataclass(frozen=True, slots=True)
class Scored:
    """A labelled pair with what form and meaning say of it."""

    same: bool
    form: FormVerdict
    close: Closeness


@dataclass(frozen=True, slots=True)
class Point:
    """What one pair of thresholds gives."""

    both_ways: float
    weakest: float
    recall: float
    """Share of the true pairs that would be served."""
    false_hits: float
    """Share of the false pairs that would be served."""
    precision: float
    """Share of true pairs among those served; 1 when none is."""


@dataclass(frozen=True, slots=True)
class Calibration:
    pairs: int
    true_pairs: int
    passed_form: int
    chosen: Point
    curve: tuple[Point, ...]
    """Over `both_ways`, at the chosen `weakest`."""
    within_bound: bool
    """False when no thresholds keep to the bound: then the strictest are chosen."""


def calibrate(scored: Sequence[Scored], max_false_hits: float) -> Calibration:
    """Evaluates a grid of both thresholds; among equal recalls the strictest are chosen."""
    passed = np.array([s.form.passed for s in scored], bool)
    same = np.array([s.same for s in scored], bool)
    both = np.array([s.close.both_ways for s in scored])
    weak = np.array([s.close.weakest for s in scored])
    best: Point | None = None
    for weakest in _WEAKEST:
        for both_ways in _BOTH_WAYS:
            point = _point(passed & (both >= both_ways) & (weak >= weakest), same, both_ways, weakest)
            within = point.false_hits <= max_false_hits
            if within and (best is None or point.recall >= best.recall):
                best = point
    chosen = best or _point(passed & (both >= 1.0) & (weak >= 1.0), same, 1.0, 1.0)
    curve = tuple(_point(passed & (both >= b) & (weak >= chosen.weakest), same, b, chosen.weakest) for b in _BOTH_WAYS)
    return Calibration(len(scored), int(same.sum()), int(passed.sum()), chosen, curve, best is not None)


def _point(served: NDArray[np.bool_], same: NDArray[np.bool_], both_ways: float, weakest: float) -> Point:
    true, false = int((served & same).sum()), int((served & ~same).sum())
    return Point(
        both_ways=float(both_ways),
        weakest=float(weakest),
        recall=true / max(1, int(same.sum())),
        false_hits=false / max(1, int((~same).sum())),
        precision=true / (true + false) if true + false else 1.0,
    )
