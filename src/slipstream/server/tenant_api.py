"""`/v1/tenant`: what a tenant keeps and may keep, and the end of all of it."""

from __future__ import annotations

from pydantic_core import to_json

from slipstream.call import Call
from slipstream.errors import InvalidRequest
from slipstream.server.base import Service
from slipstream.server.deadlines import deadline_ms
from slipstream.server.document_types import query_of, where
from slipstream.server.exchange import Exchange

DELETE_DEADLINE_MS = 3_600_000
"""A large tenant takes a while to go, and goes whole."""


async def show(exchange: Exchange, service: Service) -> None:
    """`GET /v1/tenant?tenant=`: the key's own, or, without keys, the one named."""
    call = _open(exchange, service, where(exchange).tenant)
    found = await service.tenant(call)
    limits = service.settings.tenants.of(call.tenant)
    body = {
        "object": "tenant",
        "id": call.tenant,
        "documents": found.documents,
        "passages": found.passages,
        "bytes": found.bytes,
        "requests": found.requests,
        "limits": {"max_documents": limits.max_documents or None, "max_passages": limits.max_passages or None},
    }
    await exchange.respond(200, to_json(body))


async def delete(exchange: Exchange, service: Service) -> None:
    """`DELETE /v1/tenant`: every document and passage. It goes on when the client leaves, and after a restart.

    Without keys the tenant must be named: nobody empties the default one by leaving a word out.
    """
    if exchange.tenant is None and not query_of(exchange).get("tenant"):
        raise InvalidRequest(
            "Name the tenant to delete: DELETE /v1/tenant?tenant=NAME.",
            param="tenant",
            code="missing_required_parameter",
        )
    call = _open(exchange, service, where(exchange).tenant, DELETE_DEADLINE_MS)
    gone = await service.delete_tenant(call)
    body = {
        "object": "tenant",
        "id": call.tenant,
        "deleted": True,
        "documents": gone.documents,
        "passages": gone.passages,
    }
    await exchange.respond(200, to_json(body))


def _open(exchange: Exchange, service: Service, tenant: str, default_ms: int | None = None) -> Call:
    exchange.call = service.open_call(tenant, deadline_ms(exchange, None) or default_ms, exchange.request_id)
    return exchange.call
