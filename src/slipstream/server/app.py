"""The ASGI application: which handler serves which path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from slipstream.server import cache_api, documents_api, health, openai_api, rerank_api, search_api, tenant_api
from slipstream.server.base import Service
from slipstream.server.exchange import Exchange
from slipstream.server.front import EXCHANGE, Front
from slipstream.server.health import not_ready
from slipstream.server.lifespan import Lifespan

Handler: TypeAlias = Callable[[Exchange, Service], Awaitable[None]]


def create_app(service: Service) -> Front:
    """The application; its lifespan starts and stops the service."""

    def route(path: str, **handlers: Handler) -> Route:
        return Route(path, Endpoint(service, handlers, waits_for_ready=True), methods=list(handlers))

    def always(path: str, handler: Handler) -> Route:
        return Route(path, Endpoint(service, {"GET": handler}, waits_for_ready=False), methods=["GET"])

    routes = [
        route("/v1/chat/completions", POST=openai_api.chat_completions),
        route("/v1/cache", GET=cache_api.info, DELETE=cache_api.purge),
        route("/v1/feedback", POST=cache_api.feedback),
        route("/v1/search", POST=search_api.search),
        route("/v1/rerank", POST=rerank_api.rerank),
        route("/v2/rerank", POST=rerank_api.rerank),
        route("/v1/documents", GET=documents_api.list_all, POST=documents_api.add),
        route(
            "/v1/documents/{document:path}",
            GET=documents_api.get,
            PUT=documents_api.put,
            DELETE=documents_api.delete,
        ),
        route("/v1/tenant", GET=tenant_api.show, DELETE=tenant_api.delete),
        route("/v1/embeddings", POST=openai_api.embeddings),
        always("/v1/models", openai_api.list_models),
        always("/v1/models/{model:path}", openai_api.get_model),
        always("/healthz", health.healthz),
        always("/readyz", health.readyz),
        always("/metrics", health.metrics),
    ]
    return Front(service, Router(routes, redirect_slashes=False), Lifespan(service))


class Endpoint:
    """The handlers of one path, by method, as the ASGI application that Starlette routes to."""

    def __init__(self, service: Service, handlers: dict[str, Handler], waits_for_ready: bool) -> None:
        self._service = service
        self._handlers = {**handlers, "HEAD": handlers["GET"]} if "GET" in handlers else handlers
        self._waits_for_ready = waits_for_ready

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange: Exchange = scope[EXCHANGE]
        if self._waits_for_ready and not self._service.readiness.ready:
            raise not_ready(self._service)
        await self._handlers[exchange.method](exchange, self._service)
