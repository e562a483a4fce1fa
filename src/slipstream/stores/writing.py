"""What every store checks before it writes, so that a bad passage is refused and not half stored."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import numpy as np

from slipstream.errors import DataError
from slipstream.types import IndexedPassage


def check_writable(passages: Sequence[IndexedPassage], dimensions: int) -> None:
    """Raises DataError naming the first passage whose id, vectors or spans are not what a store can keep."""
    for indexed in passages:
        fault = _fault(indexed, dimensions)
        if fault:
            passage = indexed.passage
            raise DataError(f"Passage {passage.position} of {passage.document_id} cannot be stored: {fault}.")


def is_passage_id(text: str) -> bool:
    """Whether a text is a UUID in its canonical form, the only form stores hand out."""
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def _fault(indexed: IndexedPassage, dimensions: int) -> str | None:
    encoding = indexed.encoding
    if not is_passage_id(indexed.passage.id):
        return f"its id {indexed.passage.id!r} is not a UUID in lower case with dashes"
    if not _is_unicode(indexed.passage.text):
        return "its text holds half of a surrogate pair"
    if encoding.dense.shape != (dimensions,):
        return f"its dense vector has shape {encoding.dense.shape}, and this store holds {dimensions} dimensions"
    if encoding.tokens.ndim != 2 or encoding.tokens.shape[1] != dimensions:
        return f"its token vectors have shape {encoding.tokens.shape}, and this store holds {dimensions} dimensions"
    if encoding.offsets.shape != (len(encoding.tokens), 2):
        return f"it has {len(encoding.tokens)} token vectors and spans of shape {encoding.offsets.shape}"
    if not (np.isfinite(encoding.dense).all() and np.isfinite(encoding.tokens).all()):
        return "its vectors hold values that are not finite"
    return None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
