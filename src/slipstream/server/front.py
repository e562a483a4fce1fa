"""The outermost ASGI layer: lets exchanges in, turns what they raise into responses, and records how they went."""

from __future__ import annotations

import logging
import time

from starlette.routing import Router
from starlette.types import Receive, Scope, Send

from slipstream.errors import Unavailable
from slipstream.observe import logs
from slipstream.server.auth import Gate
from slipstream.server.base import Service
from slipstream.server.disconnect import ClientLeft
from slipstream.server.exchange import Exchange
from slipstream.server.failures import respond_failure
from slipstream.server.lifespan import Lifespan

EXCHANGE = "slipstream.exchange"
CLIENT_LEFT_STATUS = 499
"""What the log and the metrics say of a client that left; nobody receives it."""

_OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""Probes carry no key, and may name the pod's address."""

access_log = logging.getLogger("slipstream.access")
log = logging.getLogger("slipstream.server")


class Front:
    """The application that the HTTP server runs."""

    def __init__(self, service: Service, router: Router, lifespan: Lifespan) -> None:
        self._router = router
        self._metrics = service.metrics
        self._gate = Gate(service.settings.server)
        self._stopping = False
        self.lifespan = lifespan
        router.lifespan_context = lifespan

    def stop_admitting(self) -> None:
        """From now on new requests get 503; those inside go on to their end."""
        self._stopping = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._router(scope, receive, send)
            return
        exchange = Exchange(scope, receive, send)
        scope[EXCHANGE] = exchange
        scope["app"] = self  # has Starlette's router raise for 404 and 405 instead of answering itself
        with logs.request_id(exchange.request_id):
            try:
                self._let_in(exchange)
                await self._router(scope, receive, send)
            except ClientLeft:
                exchange.client_left = True
            except Exception as error:
                await self._fail(exchange, error)
            finally:
                self._record(exchange)

    def _let_in(self, exchange: Exchange) -> None:
        if exchange.path in _OPEN_PATHS:
            return
        exchange.tenant = self._gate.tenant(exchange)
        if self._stopping:
            raise Unavailable("The server is shutting down. Try again: another one, or this one, will answer soon.")

    async def _fail(self, exchange: Exchange, error: Exception) -> None:
        if exchange.started:
            log.error("request %s failed after its response began", exchange.request_id, exc_info=error)
            raise error  # the HTTP server cuts the connection, so that the client sees an unfinished response
        await respond_failure(exchange, error)

    def _record(self, exchange: Exchange) -> None:
        took_s = time.monotonic() - exchange.began_s
        status = CLIENT_LEFT_STATUS if exchange.client_left or not exchange.started else exchange.status
        self._metrics.request_finished(exchange.route, exchange.method, status, took_s)
        call = exchange.call
        if call is not None and access_log.isEnabledFor(logging.INFO):
            logs.access(call, method=exchange.method, route=exchange.route, status=status, duration_s=took_s)
        elif access_log.isEnabledFor(logging.INFO):
            fields = {"status": status, "ms": round(took_s * 1_000, 1)}
            logs.event(access_log, logging.INFO, f"{exchange.method} {exchange.route}", **fields)
