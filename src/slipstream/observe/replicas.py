"""Figures of remote engines' replicas, asked for when somebody scrapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_STATES = ("closed", "half_open", "open")


@dataclass(frozen=True, slots=True)
class ReplicaFigures:
    """One replica at this instant."""

    label: str
    """Host and port, as configured: never from a request."""
    state: Literal["closed", "half_open", "open"]
    """Of its circuit breaker."""
    in_flight: int
    requests: int
    failures: int


@dataclass(frozen=True, slots=True)
class TierFigures:
    """One tier's replicas, and what was done so that callers did not notice their failures."""

    replicas: Sequence[ReplicaFigures]
    failovers: int
    hedges: int
    hedges_won: int


class ReplicaGauges(Collector):
    def __init__(self) -> None:
        self._tiers: dict[str, Callable[[], TierFigures]] = {}

    def watch(self, tier: str, read: Callable[[], TierFigures]) -> None:
        self._tiers[tier] = read

    def describe(self) -> Iterator[Metric]:
        return iter(())

    def collect(self) -> Iterator[Metric]:
        name, by_replica, by_tier = "slipstream_replica", ("tier", "replica"), ("tier",)
        state = GaugeMetricFamily(f"{name}_state", "1 for the breaker's state.", labels=(*by_replica, "state"))
        running = GaugeMetricFamily(f"{name}_in_flight", "Requests there now.", labels=by_replica)
        requests = CounterMetricFamily(f"{name}_requests", "Requests sent there.", labels=by_replica)
        failures = CounterMetricFamily(f"{name}_failures", "Those that failed by its fault.", labels=by_replica)
        failovers = CounterMetricFamily(f"{name}_failovers", "Requests moved before a token.", labels=by_tier)
        hedges = CounterMetricFamily(f"{name}_hedges", "Slow first tokens asked of another too.", labels=by_tier)
        won = CounterMetricFamily(f"{name}_hedges_won", "Those that the other answered first.", labels=by_tier)
        for tier, read in self._tiers.items():
            figures = read()
            for replica in figures.replicas:
                labels = (tier, replica.label)
                for each in _STATES:
                    state.add_metric((*labels, each), float(each == replica.state))
                running.add_metric(labels, replica.in_flight)
                requests.add_metric(labels, replica.requests)
                failures.add_metric(labels, replica.failures)
            failovers.add_metric((tier,), figures.failovers)
            hedges.add_metric((tier,), figures.hedges)
            won.add_metric((tier,), figures.hedges_won)
        yield from (state, running, requests, failures, failovers, hedges, won)
