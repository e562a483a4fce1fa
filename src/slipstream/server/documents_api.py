"""`/v1/documents`: add, replace, list, show and delete; a change is answered once it is searchable and durable."""

from __future__ import annotations

from pydantic_core import from_json, to_json

from slipstream.call import Call
from slipstream.errors import DataError
from slipstream.server.auth import DEFAULT_TENANT
from slipstream.server.base import Document, Service
from slipstream.server.deadlines import deadline_ms
from slipstream.server.disconnect import while_connected
from slipstream.server.document_types import DEFAULT_COLLECTION, Upload, after, list_limit, where
from slipstream.server.exchange import Exchange
from slipstream.server.failures import failure_of
from slipstream.server.uploads import Uploads, read_uploads
from slipstream.server.wire import Json

UPLOAD_DEADLINE_MS = 3_600_000
"""Of an upload that names none: a long document takes minutes, and nobody watches it come."""


async def add(exchange: Exchange, service: Service) -> None:
    """`POST /v1/documents`"""
    await _take(exchange, service, None)


async def put(exchange: Exchange, service: Service) -> None:
    """`PUT /v1/documents/{id}`"""
    await _take(exchange, service, exchange.path_value("document"))


async def list_all(exchange: Exchange, service: Service) -> None:
    """`GET /v1/documents?collection=&after=&after_collection=&limit=`; `next` holds the fields for the next page."""
    place, limit, behind = where(exchange), list_limit(exchange), after(exchange)
    call = _open(exchange, service, place.tenant)
    found = await service.list_documents(
        call, collection=place.collection, after=behind.id, after_collection=behind.collection, limit=limit + 1
    )
    data = [_document_json(document) for document in found[:limit]]
    has_more = len(found) > limit
    last = {"after": found[limit - 1].id, "after_collection": found[limit - 1].collection} if has_more else None
    await exchange.respond(200, to_json({"object": "list", "data": data, "has_more": has_more, "next": last}))


async def get(exchange: Exchange, service: Service) -> None:
    """`GET /v1/documents/{id}?collection=`"""
    place = where(exchange)
    call = _open(exchange, service, place.tenant)
    document = await service.get_document(
        exchange.path_value("document"), call, collection=place.collection or DEFAULT_COLLECTION
    )
    await exchange.respond(200, to_json(_document_json(document)))


async def delete(exchange: Exchange, service: Service) -> None:
    """`DELETE /v1/documents/{id}?collection=`"""
    place, document_id = where(exchange), exchange.path_value("document")
    call = _open(exchange, service, place.tenant)
    await service.delete_document(document_id, call, collection=place.collection or DEFAULT_COLLECTION)
    await exchange.respond(200, to_json({"id": document_id, "object": "document", "deleted": True}))


async def _take(exchange: Exchange, service: Service, document_id: str | None) -> None:
    """Admitted before a byte of the body is read, for the tenant that is known by then."""
    limit_bytes = service.settings.server.max_body_mib << 20
    call = _open(exchange, service, exchange.tenant or DEFAULT_TENANT, UPLOAD_DEADLINE_MS)
    async with service.upload(call, exchange.length_bytes(limit_bytes)):
        uploads = await read_uploads(exchange, limit_bytes, document_id)
        call.tenant = uploads.tenant
        await _ingest(exchange, service, uploads, call)


async def _ingest(exchange: Exchange, service: Service, uploads: Uploads, call: Call) -> None:
    """One document gets its own status; of several, each tells how it went and one bad file stops no other."""

    async def work() -> None:
        if len(uploads.items) == 1:
            body = await _ingest_one(service, uploads.items[0], call)
            await exchange.respond(201 if body["outcome"] == "created" else 200, to_json(body))
            return
        results = [await _attempt(exchange, service, item, call) for item in uploads.items]
        failed = sum("error" in result for result in results)
        await exchange.respond(200, to_json({"object": "list", "data": results, "failed": failed}))

    await while_connected(exchange.receive, work)


async def _attempt(exchange: Exchange, service: Service, item: Upload, call: Call) -> Json:
    try:
        return await _ingest_one(service, item, call)
    except DataError as error:
        return {"name": item.name, **from_json(failure_of(error, exchange.request_id).body)}


async def _ingest_one(service: Service, item: Upload, call: Call) -> Json:
    done = await service.ingest(
        item.name,
        item.data,
        call,
        collection=item.collection,
        document_id=item.document_id,
        media_type=item.media_type,
        metadata=item.metadata,
        time=item.time,
    )
    return {**_document_json(done.document), "outcome": done.outcome}


def _open(exchange: Exchange, service: Service, tenant: str, default_ms: int | None = None) -> Call:
    exchange.call = service.open_call(tenant, deadline_ms(exchange, None) or default_ms, exchange.request_id)
    return exchange.call


def _document_json(document: Document) -> Json:
    return {
        "id": document.id,
        "object": "document",
        "collection": document.collection,
        "title": document.title,
        "source": document.source,
        "type": document.type,
        "version": document.version,
        "passages": document.passages,
        "time": document.time,
    }
