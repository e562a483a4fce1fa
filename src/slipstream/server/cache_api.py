"""`/v1/cache` and `/v1/feedback`: what a tenant has stored, dropping it, and what readers say of answers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from pydantic_core import to_json

from slipstream.cache.entry import Purge
from slipstream.call import Call
from slipstream.errors import InvalidRequest
from slipstream.server.auth import resolve_tenant
from slipstream.server.base import Service
from slipstream.server.deadlines import deadline_ms
from slipstream.server.document_types import query_of
from slipstream.server.exchange import Exchange
from slipstream.server.openai_types import Name
from slipstream.server.validation import Request, parse

_COMPLETION = "chatcmpl-"
_FILTERS = frozenset({"tenant", "document", "collection", "tag", "all"})


class FeedbackRequest(Request):
    """Body of `POST /v1/feedback`."""

    id: Name
    """Of the completion, or its request id."""
    rating: Literal["good", "bad"]
    comment: Annotated[str, Field(max_length=4_096)] = ""
    tenant: str | None = None


async def info(exchange: Exchange, service: Service) -> None:
    """`GET /v1/cache?tenant=`"""
    call = _open(exchange, service, query_of(exchange).get("tenant"))
    found = await service.cache_info(call)
    body = {
        "object": "cache",
        "entries": found.entries,
        "bytes": found.bytes,
        "oldest_at": found.oldest_at,
        "hits": found.hits,
        "saved_s": round(found.saved_s, 3),
    }
    await exchange.respond(200, to_json(body))


async def purge(exchange: Exchange, service: Service) -> None:
    """`DELETE /v1/cache?document=&collection=&tag=`, or `?all=true`; what is named together must hold together."""
    named = query_of(exchange)
    unknown = sorted(set(named) - _FILTERS)
    if unknown:
        message = f'There is no "{unknown[0]}" here; name document, collection, tag or all.'
        raise InvalidRequest(message, param=unknown[0])
    which = Purge(named.get("document"), named.get("collection"), named.get("tag"))
    if which.document_id is None and which.tag is None and named.get("all") != "true":
        message = "Name a document or a tag whose answers to drop, or send all=true for every answer of the tenant."
        raise InvalidRequest(message, param="all", code="missing_required_parameter")
    call = _open(exchange, service, named.get("tenant"))
    await exchange.respond(200, to_json({"object": "cache", "purged": await service.purge_cache(which, call)}))


async def feedback(exchange: Exchange, service: Service) -> None:
    """`POST /v1/feedback`: a bad answer is not served again."""
    request = parse(FeedbackRequest, await exchange.json_body())
    call = _open(exchange, service, request.tenant)
    request_id = request.id.removeprefix(_COMPLETION)
    evicted = await service.feedback(request_id, request.rating, request.comment, call)
    await exchange.respond(200, to_json({"object": "feedback", "id": request.id, "evicted": evicted}))


def _open(exchange: Exchange, service: Service, tenant: str | None) -> Call:
    named = resolve_tenant(exchange.tenant, tenant, "tenant")
    exchange.call = service.open_call(named, deadline_ms(exchange, None), exchange.request_id)
    return exchange.call
