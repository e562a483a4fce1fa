"""Nouns of the answer cache: a stored answer, what it was written from, and what is told about the store."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slipstream.types import FinishReason, Language, Tier, Usage, Vector


@dataclass(frozen=True, slots=True)
class Seen:
    """A passage that retrieval brought for the stored question. A passage id stands for one version of its text."""

    passage_id: str
    sentence: tuple[int, int]
    """Span of the sentence that was marked as answering best."""
    score: float


@dataclass(frozen=True, slots=True)
class Cited:
    """A citation of the stored answer; the passage itself is fetched anew when the answer is served."""

    index: int
    passage_id: str
    document_id: str
    collection: str


@dataclass(frozen=True, slots=True)
class TokenCodes:
    """Token vectors of a question, one byte a dimension."""

    codes: NDArray[np.int8]
    """(n, d)"""
    offsets: NDArray[np.int32]
    """(n, 2) character spans in the question."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored answer with all that deciding about it takes."""

    id: str
    tenant: str
    scope: str
    text: str
    """The question as keyed."""
    language: Language
    vector: Vector
    """(d,) float32, L2-normalised."""
    tokens: TokenCodes
    seen: tuple[Seen, ...]
    """Best first."""
    answer: str
    cited: tuple[Cited, ...]
    finish_reason: FinishReason
    usage: Usage
    tier: Tier
    model: str
    supported: bool
    cost_s: float
    """What writing it took: what a hit saves."""
    stored_at: float
    """Seconds since the epoch."""
    tag: str = ""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A stored question near to another."""

    entry_id: str
    similarity: float
    """Cosine of the dense vectors."""


@dataclass(frozen=True, slots=True)
class EntriesInfo:
    """How much one tenant, or everybody, has stored."""

    entries: int
    bytes: int
    oldest_at: float | None
    """Seconds since the epoch."""
    hits: int
    saved_s: float
    """Sum over hits of what writing the answer had taken."""


@dataclass(frozen=True, slots=True)
class Purge:
    """Which of a tenant's answers to drop; nothing named means all."""

    document_id: str | None = None
    collection: str | None = None
    """Of the document; None means any."""
    tag: str | None = None
    entry_id: str | None = None


@dataclass(frozen=True, slots=True)
class Feedback:
    """What a reader said of an answer."""

    tenant: str
    request_id: str
    entry_id: str
    rating: str
    """good or bad"""
    comment: str
    at: float
    """Seconds since the epoch."""
