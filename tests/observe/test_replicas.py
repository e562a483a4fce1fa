"""Replicas on the metrics page."""

from __future__ import annotations

from slipstream.observe.metrics import Metrics
from slipstream.observe.replicas import ReplicaFigures, TierFigures


def test_every_replica_shows_its_state_and_counts() -> None:
    metrics = Metrics()
    replicas = [ReplicaFigures("gpu1:8000", "closed", 3, 40, 0), ReplicaFigures("gpu2:8000", "open", 0, 9, 4)]
    metrics.watch_replicas("large", lambda: TierFigures(replicas, failovers=2, hedges=5, hedges_won=1))
    page = metrics.render().decode()
    for line in (
        'slipstream_replica_state{replica="gpu1:8000",state="closed",tier="large"} 1.0',
        'slipstream_replica_state{replica="gpu2:8000",state="closed",tier="large"} 0.0',
        'slipstream_replica_state{replica="gpu2:8000",state="open",tier="large"} 1.0',
        'slipstream_replica_in_flight{replica="gpu1:8000",tier="large"} 3.0',
        'slipstream_replica_failures_total{replica="gpu2:8000",tier="large"} 4.0',
        'slipstream_replica_failovers_total{tier="large"} 2.0',
        'slipstream_replica_hedges_won_total{tier="large"} 1.0',
    ):
        assert line in page


def test_without_remote_engines_nothing_is_shown() -> None:
    assert "replica=" not in Metrics().render().decode()
