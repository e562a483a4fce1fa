"""Passage ↔ payload, as every Qdrant stores it; filters name these keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipstream.types import Passage

TRUTHS = "truths"
"""Payload key of the metadata's booleans again, as words: bindings look true up as the number 1."""

KEYWORD_FIELDS = ("collection", "document_id", "version", "type", "language", "source", "title")
INTEGER_FIELDS = ("page", "position")
FLOAT_FIELDS = ("time",)
"""What has a payload index, beside the tenant."""


def passage_payload(passage: Passage) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "tenant": passage.tenant,
        "collection": passage.collection,
        "document_id": passage.document_id,
        "version": passage.version,
        "position": passage.position,
        "text": passage.text,
        "start": passage.start,
        "end": passage.end,
        "title": passage.title,
        "source": passage.source,
        "headings": list(passage.headings),
        "type": passage.type,
        "time": float(passage.time),
        "language": passage.language,
        "metadata": dict(passage.metadata),
        TRUTHS: {key: str(value) for key, value in passage.metadata.items() if isinstance(value, bool)},
    }
    if passage.page is not None:
        payload["page"] = passage.page
    return payload


def passage_of(passage_id: str, payload: Mapping[str, Any]) -> Passage:
    return Passage(
        id=passage_id,
        tenant=payload["tenant"],
        collection=payload["collection"],
        document_id=payload["document_id"],
        version=payload["version"],
        position=payload["position"],
        text=payload["text"],
        start=payload["start"],
        end=payload["end"],
        title=payload["title"],
        source=payload["source"],
        headings=tuple(payload["headings"]),
        type=payload["type"],
        time=payload["time"],
        language=payload["language"],
        page=payload.get("page"),
        metadata=payload["metadata"],
    )
