"""A Zipf-shaped trace of questions against each eviction policy: how many seconds of writing each saves."""

from __future__ import annotations

import heapq
import random
from collections.abc import Mapping
from dataclasses import dataclass

from slipstream.cache.eviction import POLICIES, Policy

QUESTIONS, REQUESTS, SKEW = 20_000, 60_000, 0.9
_SHARE = 0.1
"""Of all answers' bytes, what the cache holds."""


@dataclass(frozen=True, slots=True)
class Replay:
    hits: float
    """Share of requests."""
    saved: float
    """Share of the seconds that writing every answer would take."""


@dataclass(slots=True)
class _Item:
    cost_s: float
    size_bytes: int


def replay_all(seed: int = 0) -> Mapping[str, Replay]:
    """Popularity falls as rank to the power of -SKEW; costs and sizes are log-normal and independent of it, as
    between a quoted sentence and a long answer of the large tier."""
    rng = random.Random(seed)
    items = [_Item(rng.lognormvariate(0.5, 1.0), int(4_000 + rng.lognormvariate(8.3, 0.9))) for _ in range(QUESTIONS)]
    weights = [1 / rank**SKEW for rank in range(1, QUESTIONS + 1)]
    trace = rng.choices(range(QUESTIONS), weights, k=REQUESTS)
    budget = int(_SHARE * sum(item.size_bytes for item in items))
    return {name: _replay(policy, items, trace, budget) for name, policy in POLICIES.items()}


def _replay(policy: Policy, items: list[_Item], trace: list[int], budget: int) -> Replay:
    held: dict[int, float] = {}
    uses: dict[int, int] = {}
    heap: list[tuple[float, int]] = []
    used, floor, hits, saved_s, whole_s = 0, 0.0, 0, 0.0, 0.0
    for now, number in enumerate(trace):
        item = items[number]
        whole_s += item.cost_s
        if number in held:
            hits += 1
            saved_s += item.cost_s
            uses[number] += 1
        else:
            uses[number] = 0
            used += item.size_bytes
        held[number] = policy(
            hits=uses[number], cost_s=item.cost_s, size_bytes=item.size_bytes, floor=floor, now=float(now)
        )
        heapq.heappush(heap, (held[number], number))
        while used > budget:
            priority, victim = heapq.heappop(heap)
            if held.get(victim) == priority:
                del held[victim]
                used -= items[victim].size_bytes
                floor = max(floor, priority)
    return Replay(hits / len(trace), saved_s / whole_s)
