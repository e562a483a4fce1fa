"""A finished call as OpenTelemetry spans, when the SDK is installed and an endpoint is configured."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable
from typing import Any, Protocol

from slipstream.call import Call, Span
from slipstream.errors import ConfigError

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_HINT = "pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"


class Tracer(Protocol):
    def record(self, call: Call, name: str) -> None:
        """Exports a call and its stages; `name` is the route."""
        ...

    def close(self) -> None:
        """Sends what is still buffered."""
        ...


class NoTracer:
    def record(self, call: Call, name: str) -> None:
        return

    def close(self) -> None:
        return


class OtelTracer:
    """One span for the call and one for each stage; instants become events of the call's span.

    Nothing is traced while the call runs: the spans are built from its own times when it is over, and
    a batching exporter sends them from its own thread.
    """

    def __init__(self, provider: Any, wall_ns: Callable[[], int] = time.time_ns) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("slipstream")
        self._trace = importlib.import_module("opentelemetry.trace")
        self._wall_ns = wall_ns

    def record(self, call: Call, name: str) -> None:
        began_ns = self._wall_ns() - int(call.elapsed_s() * 1e9)
        attributes = {"slipstream.request_id": call.request_id, "slipstream.degraded": tuple(call.degraded)}
        root = self._tracer.start_span(name, start_time=began_ns, attributes=attributes)
        parent = self._trace.set_span_in_context(root)
        for span in call.spans:
            start_ns = began_ns + int(span.start_s * 1e9)
            if span.end_s == span.start_s:
                root.add_event(span.name, _attributes(span), timestamp=start_ns)
            elif span.end_s is not None:
                stage = self._tracer.start_span(span.name, parent, start_time=start_ns, attributes=_attributes(span))
                stage.end(began_ns + int(span.end_s * 1e9))
        root.end()

    def close(self) -> None:
        self._provider.shutdown()


def tracer_from_environment() -> Tracer:
    """OpenTelemetry's own variables decide: without an OTLP endpoint nothing is traced.

    Raises ConfigError when an endpoint is set and the SDK or its exporter is not installed.
    """
    if not any(os.environ.get(name) for name in _ENDPOINTS):
        return NoTracer()
    try:
        resources = importlib.import_module("opentelemetry.sdk.resources")
        sdk = importlib.import_module("opentelemetry.sdk.trace")
        export = importlib.import_module("opentelemetry.sdk.trace.export")
        otlp = importlib.import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    except ImportError as error:
        raise ConfigError(f"An OTLP endpoint is set, but {error.name} is not installed: {_HINT}") from None
    service = os.environ.get("OTEL_SERVICE_NAME", "slipstream")
    provider = sdk.TracerProvider(resource=resources.Resource.create({"service.name": service}))
    provider.add_span_processor(export.BatchSpanProcessor(otlp.OTLPSpanExporter()))
    return OtelTracer(provider)


def _attributes(span: Span) -> dict[str, str | int | float | bool]:
    return {f"slipstream.{name}": value for name, value in span.detail.items()}
