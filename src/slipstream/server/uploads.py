"""The three ways to send documents: JSON with text, the bare bytes of one file, a form with files."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from slipstream.errors import InvalidRequest
from slipstream.ingest.document import MEDIA_TYPES
from slipstream.server.auth import resolve_tenant
from slipstream.server.disconnect import ClientLeft
from slipstream.server.document_types import About, TextDocument, Upload, about, bare, query_of
from slipstream.server.exchange import Exchange
from slipstream.server.validation import parse

MAX_FILES = 1_000


@dataclass(frozen=True, slots=True)
class Uploads:
    tenant: str
    items: tuple[Upload, ...]


async def read_uploads(exchange: Exchange, limit_bytes: int, document_id: str | None) -> Uploads:
    """The documents of a request; `document_id` is the one in the path, which takes a single document.

    Raises InvalidRequest, TooLarge, Forbidden, ClientLeft.
    """
    if exchange.media_type == "multipart/form-data":
        uploads = await _from_form(exchange, limit_bytes)
    elif exchange.media_type in {"", "application/json"}:
        uploads = _from_json(exchange, await exchange.json_body(), document_id)
    else:
        uploads = _from_bytes(exchange, await exchange.body(limit_bytes), document_id)
    if document_id is not None:
        uploads = Uploads(uploads.tenant, (_renamed(uploads.items, document_id),))
    return uploads


def _from_json(exchange: Exchange, body: bytes, document_id: str | None) -> Uploads:
    document = parse(TextDocument, body)
    name = document.name or document.id or document_id
    return _single(exchange, document, name, document.text.encode(), document.type)


def _from_bytes(exchange: Exchange, body: bytes, document_id: str | None) -> Uploads:
    said = about(query_of(exchange))
    name = said.name or said.id or document_id
    return _single(exchange, said, name, body, said.type or _told(exchange.media_type, name))


def _single(exchange: Exchange, said: About, name: str | None, data: bytes, media_type: str | None) -> Uploads:
    if not name:
        raise InvalidRequest("Give the document a name or an id.", param="name", code="missing_required_parameter")
    tenant = resolve_tenant(exchange.tenant, said.tenant, "tenant")
    return Uploads(tenant, (Upload(name, data, said.collection, said.id, media_type, said.metadata, said.time),))


async def _from_form(exchange: Exchange, limit_bytes: int) -> Uploads:
    async def receive() -> Message:
        return await exchange.piece(limit_bytes)

    request = Request(exchange.scope, receive)
    try:
        async with request.form(max_files=MAX_FILES, max_fields=32) as form:
            fields: dict[str, str] = {}
            files: list[tuple[str, bytes, str | None]] = []
            for key, value in form.multi_items():
                if isinstance(value, UploadFile):
                    files.append((value.filename or "", await value.read(), value.content_type))
                else:
                    fields[key] = value
    except ClientDisconnect:
        raise ClientLeft from None
    except HTTPException as error:
        raise InvalidRequest(f"The form cannot be read: {error.detail}") from None
    return _form_uploads(exchange, about(fields), files)


def _form_uploads(exchange: Exchange, said: About, files: list[tuple[str, bytes, str | None]]) -> Uploads:
    if not files:
        raise InvalidRequest("The form holds no file.", param="file", code="missing_required_parameter")
    if len(files) > 1 and (said.id or said.name):
        raise InvalidRequest("id and name go with a single file only.", param="id")
    items = []
    for filename, data, content_type in files:
        name = said.name or filename
        if not name:
            raise InvalidRequest("A file in the form has no name.", param="file", code="missing_required_parameter")
        told = said.type or _told(content_type or "", name)
        items.append(Upload(name, data, said.collection, said.id, told, said.metadata, said.time))
    return Uploads(resolve_tenant(exchange.tenant, said.tenant, "tenant"), tuple(items))


def _told(content_type: str, name: str | None) -> str | None:
    """What a Content-Type says that the name does not say better: clients call any text text/plain."""
    media_type = bare(content_type)
    if media_type not in MEDIA_TYPES or (media_type == "text/plain" and name and "." in name):
        return None
    return media_type


def _renamed(items: tuple[Upload, ...], document_id: str) -> Upload:
    if len(items) != 1:
        raise InvalidRequest("Exactly one document goes to one id.", param="file")
    item = items[0]
    if item.document_id not in {None, document_id}:
        raise InvalidRequest(f'The id in the body is not the one in the path, "{document_id}".', param="id")
    return Upload(item.name, item.data, item.collection, document_id, item.media_type, item.metadata, item.time)
