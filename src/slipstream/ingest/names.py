"""What tenants, collections, documents and metadata may be called."""

from __future__ import annotations

import math
from collections.abc import Mapping

from slipstream.errors import InvalidRequest
from slipstream.ingest.prepare import RESERVED
from slipstream.types import Scalar

_MAX_CHARACTERS = 1_024
_MAX_FIELDS = 64
_INTEGERS = range(-(2**63), 2**63)
"""What the store can hold."""


def checked_scope(tenant: str, collection: str) -> None:
    _check("tenant", tenant)
    _check("collection", collection)


def checked_id(document_id: str) -> str:
    _check("document_id", document_id)
    return document_id


def checked_metadata(metadata: Mapping[str, Scalar] | None) -> Mapping[str, Scalar] | None:
    """Raises InvalidRequest for fields that have a meaning of their own, and for values that are no scalars."""
    if not metadata:
        return None
    if len(metadata) > _MAX_FIELDS:
        raise InvalidRequest(f"metadata has more than {_MAX_FIELDS} fields.", param="metadata")
    for name, value in metadata.items():
        _check("metadata", name)
        if name in RESERVED:
            raise InvalidRequest(f'The metadata field "{name}" is taken. Call it something else.', param="metadata")
        if not _is_scalar(value):
            raise InvalidRequest(
                f'The metadata field "{name}" must be text, a boolean or a number of at most 64 bits.',
                param=f"metadata.{name}",
            )
    return metadata


def _is_scalar(value: object) -> bool:
    if isinstance(value, int):
        return value in _INTEGERS
    return math.isfinite(value) if isinstance(value, float) else isinstance(value, str)


def _check(param: str, value: str) -> None:
    if not value.strip() or len(value) > _MAX_CHARACTERS or not value.isprintable():
        raise InvalidRequest(
            f"{param} must be 1 to {_MAX_CHARACTERS} printable characters, not all blank.", param=param
        )
