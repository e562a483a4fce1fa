"""Whether the server lives, whether it can serve, and its figures."""

from __future__ import annotations

from slipstream.errors import Unavailable
from slipstream.server.base import Service
from slipstream.server.exchange import Exchange

METRICS_TYPE = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")


async def healthz(exchange: Exchange, service: Service) -> None:
    """`GET /healthz`: the event loop turns. Nothing else is looked at, so that a busy server is not killed."""
    await exchange.respond(200, b'{"status":"ok"}')


async def readyz(exchange: Exchange, service: Service) -> None:
    """`GET /readyz`: 200 when requests can be served, 503 with the reason when not."""
    if not service.readiness.ready:
        raise not_ready(service)
    await exchange.respond(200, b'{"status":"ready"}')


async def metrics(exchange: Exchange, service: Service) -> None:
    """`GET /metrics`: Prometheus' text format."""
    await exchange.respond(200, service.metrics.render(), [METRICS_TYPE])


def not_ready(service: Service) -> Unavailable:
    """What every request that needs the parts gets until they are ready."""
    return Unavailable(service.readiness.reason or "The server is starting.", code="not_ready", retry_after_s=2)
