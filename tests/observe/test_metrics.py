"""Metrics: a registry of our own, bounded labels, and microseconds an observation."""

from __future__ import annotations

import time
from dataclasses import dataclass

import prometheus_client
from prometheus_client.parser import text_string_to_metric_families

from slipstream.call import Call, Deadline
from slipstream.models.base import EngineLoad
from slipstream.observe.metrics import MAX_LABEL_VALUES, Metrics
from slipstream.runtime.admission import Admission
from slipstream.types import Usage


@dataclass
class Clock:
    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


def values(metrics: Metrics) -> dict[str, float]:
    """Samples as "name{label=value,…}" → value, through Prometheus' own parser."""
    families = text_string_to_metric_families(metrics.render().decode())
    return {
        sample.name + "{" + ",".join(f"{k}={v}" for k, v in sorted(sample.labels.items())) + "}": sample.value
        for family in families
        for sample in family.samples
    }


def finished_call() -> Call:
    clock = Clock()
    call = Call("tenant with a name", Deadline(None), clock=clock)
    with call.stage("retrieve"), call.stage("dense"):
        clock.now_s = 0.02
    with call.stage("rerank"):
        clock.now_s = 0.05
    with call.stage("generate", tier="small"):
        clock.now_s = 0.3
        call.mark("first_token")
        clock.now_s = 1.0
    call.degrade("sparse_search")
    return call


def test_a_call_becomes_stage_metrics() -> None:
    metrics = Metrics()
    metrics.record_call(finished_call())
    seen = values(metrics)
    assert seen["slipstream_stage_seconds_count{stage=dense}"] == 1
    assert seen["slipstream_stage_seconds_sum{stage=generate}"] == 0.95
    assert seen["slipstream_first_token_seconds_sum{}"] == 0.3
    assert seen["slipstream_evidence_seconds_sum{}"] == 0.05
    assert seen["slipstream_answers_total{tier=small}"] == 1
    assert seen["slipstream_degraded_total{what=sparse_search}"] == 1
    assert "tenant" not in metrics.render().decode()


def test_requests_tokens_batches_lag_and_ingestion_are_counted() -> None:
    metrics = Metrics()
    metrics.request_finished("/v1/search", "POST", 200, 0.04)
    metrics.used(Usage(prompt_tokens=640, completion_tokens=48, cached_tokens=512))
    metrics.batch_ran("encoder", [0.001, 0.002])
    metrics.loop_lag(0.003)
    metrics.token_gap(0.02)
    metrics.ingested("created", passages=7)
    metrics.watch_passages(lambda: 42)
    seen = values(metrics)
    assert seen["slipstream_requests_total{method=POST,route=/v1/search,status=200}"] == 1
    assert seen["slipstream_tokens_total{kind=cached}"] == 512
    assert seen["slipstream_batch_items_sum{batcher=encoder}"] == 2
    assert seen["slipstream_batch_wait_seconds_count{batcher=encoder}"] == 2
    assert seen["slipstream_loop_lag_seconds_count{}"] == 1
    assert seen["slipstream_token_gap_seconds_count{}"] == 1
    assert seen["slipstream_ingested_passages_total{}"] == 7
    assert seen["slipstream_store_passages{}"] == 42
    assert seen["process_resident_memory_bytes{}"] > 0


def test_admission_and_engines_are_asked_when_scraped() -> None:
    metrics = Metrics()
    metrics.watch_admission(Admission(1_000, 1_000).load)
    metrics.watch_engine("small", lambda: EngineLoad(running=3, waiting=1, kv_used_fraction=0.25))

    def down() -> EngineLoad:
        raise ConnectionError

    metrics.watch_engine("large", down)
    seen = values(metrics)
    assert seen["slipstream_admission_running{}"] == 0
    assert seen["slipstream_admission_turned_away_total{reason=queue_full}"] == 0
    assert seen["slipstream_engine_running{model=small}"] == 3
    assert seen["slipstream_engine_kv_used{model=small}"] == 0.25
    assert seen["slipstream_engine_up{model=large}"] == 0
    assert "slipstream_engine_running{model=large}" not in seen


def test_label_values_are_bounded() -> None:
    metrics = Metrics()
    for number in range(10 * MAX_LABEL_VALUES):
        metrics.request_finished(f"/made/up/{number}", "GET", 404, 0.001)
    counted = {name: value for name, value in values(metrics).items() if name.startswith("slipstream_requests_total")}
    assert len(counted) == MAX_LABEL_VALUES + 1
    assert sum(counted.values()) == 10 * MAX_LABEL_VALUES
    assert len(metrics._requests._children) <= MAX_LABEL_VALUES + 1


def test_nothing_is_registered_globally() -> None:
    Metrics()
    Metrics()
    assert b"slipstream" not in prometheus_client.generate_latest()


def test_recording_a_call_costs_microseconds() -> None:
    metrics, call = Metrics(), finished_call()
    began_s = time.perf_counter()
    for _ in range(500):
        metrics.record_call(call)
    assert (time.perf_counter() - began_s) / 500 < 1e-3
