"""What the documents endpoints read, from JSON, a form or the query string, as one shape each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError, from_json
from starlette.datastructures import QueryParams

from slipstream.errors import InvalidRequest, SlipstreamError
from slipstream.ingest.document import MEDIA_TYPES
from slipstream.server.auth import resolve_tenant
from slipstream.server.exchange import Exchange
from slipstream.server.filters import iso_time
from slipstream.server.openai_types import Name
from slipstream.server.validation import Extension, parse
from slipstream.types import Scalar

DEFAULT_COLLECTION = "default"
LIST_LIMIT = 100
MAX_LIST_LIMIT = 1_000


def _seconds(value: Any) -> Any:
    """Dates become seconds; all else is left to pydantic."""
    if not isinstance(value, str):
        return value
    try:
        return iso_time(value, "time")
    except SlipstreamError as error:
        raise PydanticCustomError("invalid_date", "{reason}", {"reason": error.message}) from None


def _known_type(value: str) -> str:
    media_type = bare(value)
    if media_type not in MEDIA_TYPES:
        known = ", ".join(MEDIA_TYPES)
        advice = "not one of {known}; leave it out to tell it by name"
        raise PydanticCustomError("unknown_type", advice, {"known": known})
    return media_type


def bare(media_type: str) -> str:
    """Without parameters such as charset, which documents tell themselves."""
    return media_type.partition(";")[0].strip().lower()


Time: TypeAlias = Annotated[float, BeforeValidator(_seconds)]
MediaType: TypeAlias = Annotated[str, AfterValidator(_known_type)]
Label: TypeAlias = Annotated[str, Field(min_length=1, max_length=1_024, pattern=r"^[^\x00-\x1f\x7f]+$")]
"""A name or an id: one printable line. It is never used as a path."""


class About(Extension):
    """What may be said of an uploaded document, beside its bytes."""

    tenant: str | None = None
    collection: Name = DEFAULT_COLLECTION
    id: Label | None = None
    """None takes the name."""
    name: Label | None = None
    """File name, path or URL, as readers will see it."""
    type: MediaType | None = None
    """Media type, before which the name means nothing; None tells it by name and content."""
    metadata: Annotated[dict[str, str | bool | int | float], Field(max_length=64)] = Field(default_factory=dict)
    """Further fields that filters may name."""
    time: Time | None = None
    """Modification time: seconds since the epoch, or an ISO 8601 date."""


class TextDocument(About):
    """JSON body of `POST /v1/documents` and `PUT /v1/documents/{id}`."""

    text: Annotated[str, Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class Upload:
    """One document to index."""

    name: str
    data: bytes
    collection: str
    document_id: str | None
    media_type: str | None
    metadata: Mapping[str, Scalar] = field(default_factory=dict)
    time: float | None = None


@dataclass(frozen=True, slots=True)
class Where:
    """The tenant and collection that a request without a body names in its query string."""

    tenant: str
    collection: str | None


def query_of(exchange: Exchange) -> QueryParams:
    return QueryParams(exchange.scope["query_string"])


def where(exchange: Exchange) -> Where:
    """Raises Forbidden or InvalidRequest, as `resolve_tenant` does."""
    query = query_of(exchange)
    return Where(resolve_tenant(exchange.tenant, query.get("tenant"), "tenant"), query.get("collection"))


@dataclass(frozen=True, slots=True)
class After:
    """The last document of the page before; both empty for the first page."""

    id: str
    collection: str


def after(exchange: Exchange) -> After:
    """Raises InvalidRequest when an id alone is given across collections: two may hold documents of one id."""
    query = query_of(exchange)
    behind = After(query.get("after", ""), query.get("after_collection") or query.get("collection", ""))
    if behind.id and not behind.collection:
        message = "after goes with after_collection: send both from the next of the page before."
        raise InvalidRequest(message, param="after_collection", code="missing_required_parameter")
    return behind


def about(fields: Mapping[str, str]) -> About:
    """From a query string or the text fields of a form; `metadata` is JSON there.

    Raises InvalidRequest naming the field.
    """
    values: dict[str, Any] = dict(fields)
    if "metadata" in values:
        values["metadata"] = _json(values["metadata"], "metadata")
    if "time" in values:
        values["time"] = _number_or_text(values["time"])
    return parse(About, values)


def list_limit(exchange: Exchange) -> int:
    """Raises InvalidRequest."""
    text = query_of(exchange).get("limit", str(LIST_LIMIT))
    is_count = text.isascii() and text.isdigit() and len(text) <= len(str(MAX_LIST_LIMIT))
    if not (is_count and 1 <= int(text) <= MAX_LIST_LIMIT):
        raise InvalidRequest(f"limit is 1 to {MAX_LIST_LIMIT}.", param="limit", code="invalid_value")
    return int(text)


def _json(text: str, param: str) -> Any:
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidRequest(f"{param} is not valid JSON: {error}.", param=param, code="invalid_json") from None


def _number_or_text(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
