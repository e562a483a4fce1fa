"""Tracing: off without an endpoint, a clear error without the SDK, real spans with it."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from slipstream.call import Call, Deadline
from slipstream.errors import ConfigError
from slipstream.observe.tracing import NoTracer, OtelTracer, tracer_from_environment

INSTALLED = importlib.util.find_spec("opentelemetry") is not None


def finished_call() -> Call:
    now = [0.0]
    call = Call("acme", Deadline(None), clock=lambda: now[0])
    with call.stage("retrieve", candidates=3):
        now[0] = 0.25
    call.mark("first_token")
    now[0] = 1.0
    return call


def test_off_without_an_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", raising=False)
    tracer = tracer_from_environment()
    assert isinstance(tracer, NoTracer)
    tracer.record(finished_call(), "/v1/search")
    tracer.close()


@pytest.mark.skipif(INSTALLED, reason="the SDK is installed")
def test_an_endpoint_without_the_sdk_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    with pytest.raises(ConfigError, match="pip install opentelemetry-sdk"):
        tracer_from_environment()


@pytest.mark.skipif(not INSTALLED, reason="opentelemetry-sdk is not installed; it is optional")
def test_a_call_becomes_spans() -> None:
    sdk: Any = pytest.importorskip("opentelemetry.sdk.trace")
    export: Any = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory: Any = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    exporter = memory.InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))
    OtelTracer(provider, wall_ns=lambda: 10_000_000_000).record(finished_call(), "/v1/search")
    stage, root = exporter.get_finished_spans()
    assert (root.name, root.start_time, [event.name for event in root.events]) == (
        "/v1/search",
        9_000_000_000,
        ["first_token"],
    )
    assert (stage.name, stage.end_time - stage.start_time) == ("retrieve", 250_000_000)
    assert stage.parent.span_id == root.context.span_id
    assert stage.attributes["slipstream.candidates"] == 3
