"""Which stored answers go first when the bounds are reached: a priority for each, the lowest goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Policy(Protocol):
    """`floor` is the priority of what was evicted last, `now` a count that grows with every use."""

    def __call__(self, *, hits: int, cost_s: float, size_bytes: int, floor: float, now: float) -> float: ...


def cost_per_byte(*, hits: int, cost_s: float, size_bytes: int, floor: float, now: float) -> float:
    """GreedyDual-Size-Frequency: seconds saved per kibibyte, on top of a floor that rises as others go, so that
    what was popular long ago makes room.

    Source: Cherkasova, "Improving WWW proxies performance with Greedy-Dual-Size-Frequency caching policy",
    HP Labs HPL-98-69R1, 1998.
    """
    return floor + (hits + 1) * cost_s * 1024 / size_bytes


def least_recent(*, hits: int, cost_s: float, size_bytes: int, floor: float, now: float) -> float:
    """LRU."""
    return now


def least_frequent(*, hits: int, cost_s: float, size_bytes: int, floor: float, now: float) -> float:
    """LFU, the older first among equals."""
    return hits + now * 1e-12


POLICIES: Mapping[str, Policy] = {"cost": cost_per_byte, "lru": least_recent, "lfu": least_frequent}
