"""How a dense search goes about a scope: by scan, along the graph, or along the graph and neighbours of neighbours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import qdrant_edge as edge

from slipstream.stores.edge_filters import scope_filter
from slipstream.types import Scope

Way: TypeAlias = Literal["scan", "graph", "spread"]

GRAPH_ABOVE = 2_000
"""Passages of a tenant, collection or type from which it has edges of its own in the graph: up to there a scan is as
fast."""
SCAN_BELOW = 13_000
"""Passages that a filter leaves, up to which a scan costs no more than a search that spreads, and misses nothing."""
_NEARLY_ALL = 0.9
"""Share of all passages above which a filter takes too few from the graph to matter."""
_PLANS = 1_024
_STALE_SHARE = 50
"""Plans hold until a fiftieth of the passages has changed."""


@dataclass(frozen=True, slots=True)
class Plan:
    inside: edge.Filter
    way: Way


class Plans:
    """A graph falls apart when a filter takes most of its nodes away: at a tenth left, recall was measured at 0.13 to
    0.3. The engine scans below its own threshold and knows no other remedy unless told, so each scope's passages are
    counted once, and the way is kept until enough has changed."""

    def __init__(self, count: Callable[[edge.Filter], int], passages: Callable[[], int]) -> None:
        self._count = count
        self._passages = passages
        self._plans: dict[str, Plan] = {}
        """By the scope's `repr`: to a dictionary 1, 1.0 and True are the same, to a filter they are not."""
        self._changes = 0

    def of(self, scope: Scope) -> Plan:
        key = repr(scope)
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= _PLANS:
                self._plans.clear()
            inside = scope_filter(scope)
            plan = Plan(inside, self._way(scope, self._count(inside)))
            self._plans[key] = plan
        return plan

    def changed(self, passages: int) -> None:
        self._changes += passages
        if self._changes * _STALE_SHARE > self._passages():
            self._plans.clear()
            self._changes = 0

    def forget(self) -> None:
        """After a deletion of nobody knows how many."""
        self._plans.clear()

    def _way(self, scope: Scope, inside: int) -> Way:
        if inside <= GRAPH_ABOVE:
            return "scan"
        if inside > _NEARLY_ALL * self._passages() or self._has_own_edges(scope, inside):
            return "graph"
        return "scan" if inside <= SCAN_BELOW else "spread"

    def _has_own_edges(self, scope: Scope, inside: int) -> bool:
        """A tenant's passages are linked among themselves. A collection's are too, whosever they are, but what lies in
        both hung together in one build and fell apart in the next (recall .58 to .97), so nothing is built on it."""
        if scope.filter is not None:
            return False
        return not scope.collections or inside > _NEARLY_ALL * self._count(scope_filter(Scope(scope.tenant)))
