"""How close two questions are in meaning: late interaction both ways, and word by word where they differ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slipstream.cache.guard import FormVerdict, Spans
from slipstream.types import Matrix


@dataclass(frozen=True, slots=True)
class Closeness:
    both_ways: float
    """The lower of the two MaxSim means, one for each direction; in [-1, 1]."""
    weakest: float
    """Of the words without a counterpart, how well the other question covers the least covered; 1 without such."""


def closeness(
    first: Matrix,
    first_offsets: NDArray[np.int32],
    second: Matrix,
    second_offsets: NDArray[np.int32],
    form: FormVerdict,
) -> Closeness:
    """first: (n, d), second: (m, d), rows L2-normalised.

    Source of MaxSim: Khattab & Zaharia, ColBERT, SIGIR 2020, eq. 3.
    """
    if not len(first) or not len(second):
        return Closeness(-1.0, -1.0)
    similarity = first @ second.T
    forth, back = similarity.max(axis=1), similarity.max(axis=0)
    weakest = min(
        _least_covered(forth, first_offsets, form.only_first), _least_covered(back, second_offsets, form.only_second)
    )
    return Closeness(float(min(forth.mean(), back.mean())), weakest)


def _least_covered(best: NDArray[np.float32], offsets: NDArray[np.int32], spans: Spans) -> float:
    """A word counts by the worst covered of its tokens."""
    weakest = 1.0
    for start, end in spans:
        within = (offsets[:, 0] < end) & (offsets[:, 1] > start)
        if within.any():
            weakest = min(weakest, float(best[within].min()))
    return weakest
