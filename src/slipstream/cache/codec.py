"""Entry ↔ bytes: JSON for what is read, raw numbers for the vectors."""

from __future__ import annotations

import numpy as np
from pydantic import TypeAdapter

from slipstream.cache.entry import Cited, Entry, Seen, TokenCodes
from slipstream.errors import DataError
from slipstream.types import Encoding, FinishReason, Language, Matrix, Tier, Usage, Vector

FORMAT = 1
_SCALE = 127.0

_Head = tuple[
    int,
    str,
    str,
    str,
    str,
    Language,
    tuple[Seen, ...],
    str,
    tuple[Cited, ...],
    FinishReason,
    Usage,
    Tier,
    str,
    bool,
    float,
    float,
    str,
    int,
    int,
]
_HEAD: TypeAdapter[_Head] = TypeAdapter(_Head)


def encode_entry(entry: Entry) -> bytes:
    count, dimensions = entry.tokens.codes.shape
    head = _HEAD.dump_json(
        (
            FORMAT, entry.id, entry.tenant, entry.scope, entry.text, entry.language, entry.seen, entry.answer,
            entry.cited, entry.finish_reason, entry.usage, entry.tier, entry.model, entry.supported, entry.cost_s,
            entry.stored_at, entry.tag, count, dimensions,
        )
    )  # fmt: skip
    parts = (
        len(head).to_bytes(4, "little"),
        head,
        entry.vector.astype("<f2").tobytes(),
        entry.tokens.codes.tobytes(),
        entry.tokens.offsets.astype("<i4").tobytes(),
    )
    return b"".join(parts)


def decode_entry(data: bytes) -> Entry:
    """Raises DataError for bytes that are no entry of this format."""
    try:
        size = int.from_bytes(data[:4], "little")
        (_, id_, tenant, scope, text, language, seen, answer, cited, reason, usage, tier, model, supported, cost_s,
         stored_at, tag, count, dimensions) = _HEAD.validate_json(data[4 : 4 + size])  # fmt: skip
        at = 4 + size
        vector = np.frombuffer(data, "<f2", dimensions, at).astype(np.float32)
        at += 2 * dimensions
        codes = np.frombuffer(data, np.int8, count * dimensions, at).reshape(count, dimensions)
        at += count * dimensions
        offsets = np.frombuffer(data, "<i4", 2 * count, at).reshape(count, 2)
    except ValueError as error:
        raise DataError(f"A stored answer cannot be read: {error}.", code="unreadable_cache_entry") from None
    return Entry(
        id_, tenant, scope, text, language, normalised(vector), TokenCodes(codes, offsets), seen, answer, cited,
        reason, usage, tier, model, supported, cost_s, stored_at, tag,
    )  # fmt: skip


def token_codes(encoding: Encoding) -> TokenCodes:
    """Token vectors scaled to one byte a dimension: rows are unit vectors, so that one scale fits all of them."""
    peak = np.abs(encoding.tokens).max(axis=1, keepdims=True, initial=1e-6)
    return TokenCodes(np.round(encoding.tokens / peak * _SCALE).astype(np.int8), encoding.offsets)


def token_vectors(tokens: TokenCodes) -> Matrix:
    """(n, d) float32, rows L2-normalised, cosine to the originals above .999."""
    rows = tokens.codes.astype(np.float32)
    norms = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6)
    return np.asarray(rows / norms, np.float32)


def normalised(vector: Vector) -> Vector:
    return np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-6), np.float32)
