"""Figures that are asked for when somebody scrapes: admission and engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class AdmissionFigures(Protocol):
    """What admission shows; slipstream.runtime.admission.AdmissionLoad is one."""

    @property
    def running(self) -> int: ...
    @property
    def running_tokens(self) -> int: ...
    @property
    def queued(self) -> int: ...
    @property
    def queued_tokens(self) -> int: ...
    @property
    def admitted(self) -> int: ...
    @property
    def refused_queue_full(self) -> int: ...
    @property
    def refused_deadline(self) -> int: ...
    @property
    def refused_closed(self) -> int: ...
    @property
    def expired(self) -> int: ...
    @property
    def left(self) -> int: ...


class EngineFigures(Protocol):
    """What a language model shows; slipstream.models.base.EngineLoad is one."""

    @property
    def running(self) -> int: ...
    @property
    def waiting(self) -> int: ...
    @property
    def kv_used_fraction(self) -> float: ...


class AdmissionGauges(Collector):
    def __init__(self, load: Callable[[], AdmissionFigures]) -> None:
        self._load = load

    def describe(self) -> Iterator[Metric]:
        return iter(())

    def collect(self) -> Iterator[Metric]:
        load = self._load()
        prefix = "slipstream_admission"
        yield GaugeMetricFamily(f"{prefix}_running", "Calls admitted and not finished.", load.running)
        yield GaugeMetricFamily(f"{prefix}_running_tokens", "Estimated tokens they hold.", load.running_tokens)
        yield GaugeMetricFamily(f"{prefix}_queued", "Calls that wait.", load.queued)
        yield GaugeMetricFamily(f"{prefix}_queued_tokens", "Estimated tokens that wait.", load.queued_tokens)
        yield CounterMetricFamily(f"{prefix}_admitted", "Calls admitted.", load.admitted)
        ended = CounterMetricFamily(f"{prefix}_turned_away", "Calls not admitted, by reason.", labels=("reason",))
        ended.add_metric(("queue_full",), load.refused_queue_full)
        ended.add_metric(("deadline_ahead",), load.refused_deadline)
        ended.add_metric(("deadline_passed",), load.expired)
        ended.add_metric(("shutting_down",), load.refused_closed)
        ended.add_metric(("caller_left",), load.left)
        yield ended


class EngineGauges(Collector):
    """An engine whose load cannot be read is left out: one that is down must not break the page."""

    def __init__(self) -> None:
        self._loads: dict[str, Callable[[], EngineFigures]] = {}

    def watch(self, model: str, load: Callable[[], EngineFigures]) -> None:
        self._loads[model] = load

    def describe(self) -> Iterator[Metric]:
        return iter(())

    def collect(self) -> Iterator[Metric]:
        running = GaugeMetricFamily("slipstream_engine_running", "Sequences that decode.", labels=("model",))
        waiting = GaugeMetricFamily("slipstream_engine_waiting", "Sequences that wait.", labels=("model",))
        kv_used = GaugeMetricFamily("slipstream_engine_kv_used", "Fraction of the KV blocks.", labels=("model",))
        up = GaugeMetricFamily("slipstream_engine_up", "1 while its load can be read.", labels=("model",))
        for model, read in self._loads.items():
            try:
                load = read()
            except Exception:
                up.add_metric((model,), 0)
                continue
            up.add_metric((model,), 1)
            running.add_metric((model,), load.running)
            waiting.add_metric((model,), load.waiting)
            kv_used.add_metric((model,), load.kv_used_fraction)
        yield from (up, running, waiting, kv_used)
