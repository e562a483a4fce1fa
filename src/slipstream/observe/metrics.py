"""Every Prometheus metric of the process, on a registry of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector, generate_latest

from slipstream.call import Call, Span
from slipstream.observe.gauges import AdmissionFigures, AdmissionGauges, EngineFigures, EngineGauges
from slipstream.observe.histogram import FastHistogram
from slipstream.observe.replicas import ReplicaGauges, TierFigures
from slipstream.types import Usage

M = TypeVar("M", covariant=True)
C = TypeVar("C")


class _Family(Protocol[M]):
    """A metric with labels: hands out one child for each set of values."""

    def labels(self, *values: str) -> M: ...


MAX_LABEL_VALUES = 64
"""Further values of a label are counted as "other": a metric's size never depends on what callers send."""

_FAST_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_SLOW_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_ITEMS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class _Labelled(Generic[C]):
    """A metric's children by label values: looked up once each, and bounded in number."""

    def __init__(self, metric: _Family[C]) -> None:
        self._metric = metric
        self._children: dict[tuple[str, ...], C] = {}

    def __call__(self, *values: str) -> C:
        child = self._children.get(values)
        if child is None:
            known = values if len(self._children) < MAX_LABEL_VALUES else tuple("other" for _ in values)
            child = self._children.get(known) or self._metric.labels(*known)
            self._children[known] = child
        return child


class Metrics:
    """Counts and times; one observation costs microseconds. Tenants are no label: there may be thousands."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = _Labelled(self._counter("requests", "HTTP exchanges.", "route", "method", "status"))
        self._request_s = _Labelled(self._histogram("request_seconds", "HTTP exchange.", _SLOW_S, "route"))
        self._answers = _Labelled(self._counter("answers", "Answers by the tier that gave them.", "tier"))
        self._stage_s = _Labelled(self._histogram("stage_seconds", "One stage of a call.", _SLOW_S, "stage"))
        self._first_token_s = self._histogram("first_token_seconds", "Call to first model token.", _SLOW_S)
        self._evidence_s = self._histogram("evidence_seconds", "Call to cited evidence.", _SLOW_S)
        self._token_gap_s = self._histogram("token_gap_seconds", "Between two pieces of one stream.", _FAST_S)
        self._tokens = _Labelled(self._counter("tokens", "Model tokens: prompt, of it cached, completion.", "kind"))
        self._degraded = _Labelled(self._counter("degraded", "What calls gave up.", "what"))
        self._batch_items = _Labelled(self._histogram("batch_items", "Items of a batch.", _ITEMS, "batcher"))
        self._batch_wait_s = _Labelled(self._histogram("batch_wait_seconds", "Queueing.", _FAST_S, "batcher"))
        self._loop_lag_s = self._histogram("loop_lag_seconds", "Event loop lateness.", _FAST_S)
        self._ingested = _Labelled(self._counter("ingested_documents", "Documents by outcome.", "outcome"))
        self._ingested_passages = self._counter("ingested_passages", "Passages written.")
        self._engines = EngineGauges()
        self.registry.register(self._engines)
        self._replicas = ReplicaGauges()
        self.registry.register(self._replicas)

    def render(self) -> bytes:
        """The text format of Prometheus, version 0.0.4."""
        return generate_latest(self.registry)

    # --- requests and calls ---

    def request_finished(self, route: str, method: str, status: int, duration_s: float) -> None:
        """One HTTP exchange ended; `route` is the path template."""
        self._requests(route, method, str(status)).inc()
        self._request_s(route).observe(duration_s)

    def record_call(self, call: Call) -> None:
        """Turns a finished call's spans and degradations into stage metrics."""
        for span in call.spans:
            name, end_s = span.name, span.end_s
            if name == "first_token":
                self._first_token_s.observe(span.start_s)
            elif end_s is not None:
                self._stage_s(name).observe(end_s - span.start_s)
            if name == "rerank" and end_s is not None:
                self._evidence_s.observe(end_s)
            if name == "generate":
                self._answers(str(span.detail.get("tier", "unknown"))).inc()
                self.used(_usage(span))
        for what in call.degraded:
            self._degraded(what).inc()

    def token_gap(self, seconds: float) -> None:
        self._token_gap_s.observe(seconds)

    def used(self, usage: Usage) -> None:
        for kind, count in (
            ("prompt", usage.prompt_tokens),
            ("completion", usage.completion_tokens),
            ("cached", usage.cached_tokens),
        ):
            if count:
                self._tokens(kind).inc(count)

    # --- runtime ---

    def batch_ran(self, batcher: str, waits_s: Sequence[float]) -> None:
        self._batch_items(batcher).observe(len(waits_s))
        observe = self._batch_wait_s(batcher).observe
        for wait_s in waits_s:
            observe(wait_s)

    def loop_lag(self, seconds: float) -> None:
        self._loop_lag_s.observe(seconds)

    # --- ingestion ---

    def ingested(self, outcome: str, passages: int = 0) -> None:
        """One document was handled: created, replaced, unchanged, deleted or failed."""
        self._ingested(outcome).inc()
        self._ingested_passages.inc(passages)

    # --- gauges asked when somebody looks ---

    def watch_passages(self, count: Callable[[], float]) -> None:
        Gauge("slipstream_store_passages", "Passages stored.", registry=self.registry).set_function(count)

    def watch_admission(self, load: Callable[[], AdmissionFigures]) -> None:
        self.registry.register(AdmissionGauges(load))

    def watch_engine(self, model: str, load: Callable[[], EngineFigures]) -> None:
        self._engines.watch(model, load)

    def watch_replicas(self, tier: str, read: Callable[[], TierFigures]) -> None:
        self._replicas.watch(tier, read)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"slipstream_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: Sequence[float], *labels: str) -> FastHistogram:
        histogram = FastHistogram(f"slipstream_{name}", text, buckets, labels)
        self.registry.register(histogram)
        return histogram


def _usage(span: Span) -> Usage:
    """What the span of a generation says of its tokens; zeros when it was cut short."""
    return Usage(
        prompt_tokens=int(span.detail.get("prompt_tokens", 0)),
        completion_tokens=int(span.detail.get("tokens", 0)),
        cached_tokens=int(span.detail.get("cached_tokens", 0)),
    )
