"""Names that follow from content: document versions, passage ids, the pipeline's fingerprint."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from slipstream.ingest.chunking import ChunkLimits
from slipstream.models.base import Encoder
from slipstream.types import Scalar

_FORMAT = 1
"""Raised whenever parsing, chunking or encoding changes what a document turns into."""
_NAMESPACE = uuid.UUID("6f1d3c52-8f0b-5a67-9d5e-2f1c7b9a4e10")


@dataclass(frozen=True, slots=True)
class DocumentKey:
    """What names a document: no two tenants or collections share one."""

    tenant: str
    collection: str
    id: str


def fingerprint(encoder: Encoder, limits: ChunkLimits) -> str:
    """Changes when the same bytes would be indexed otherwise, so that they are indexed anew."""
    return _digest([_FORMAT, encoder.name, encoder.dimensions, limits.target, limits.cap, limits.overlap])[:8]


def reading_of(name: str, metadata: Mapping[str, Scalar], pipeline: str, media_type: str | None = None) -> str:
    """How bytes are read: the same under another name, type, metadata or pipeline makes another version."""
    told = [media_type] if media_type else []
    return _digest([name, sorted(metadata.items()), pipeline, *told])[:8]


def version_of(content: str, reading: str) -> str:
    """A version from the content's sha256 (hex) and the way it is read."""
    return f"{content[:32]}-{reading}"


def passage_id(key: DocumentKey, version: str, position: int) -> str:
    """A UUID (version 5) that is the same whenever the same passage is ingested."""
    return str(uuid.uuid5(_NAMESPACE, json.dumps([key.tenant, key.collection, key.id, version, position])))


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, ensure_ascii=True).encode()).hexdigest()
