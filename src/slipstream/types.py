"""The nouns that travel the path: frozen, slotted, without behaviour beyond trivial properties.

They travel one way: Question → Query → Candidates → Passages → Prompt → Route → Token… → Answer.
Text offsets are character offsets, half-open, into the decoded text of the document (spans of a
passage) or into the passage's own text (spans of a sentence). Times are seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Scalar: TypeAlias = str | int | float | bool
Vector: TypeAlias = NDArray[np.float32]
Matrix: TypeAlias = NDArray[np.float32]
Language: TypeAlias = Literal["en", "zh", "other"]
Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
Scorer: TypeAlias = Literal["rrf", "maxsim", "cross_encoder"]
Tier: TypeAlias = Literal["cached", "extractive", "small", "large"]
Mode: TypeAlias = Literal["hybrid", "dense", "sparse"]
Expansion: TypeAlias = Literal["none", "multi", "hyde", "auto"]
FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter"]
CacheUse: TypeAlias = Literal["auto", "refresh", "off"]
CacheStatus: TypeAlias = Literal["hit", "miss", "refresh", "off"]
CacheLevel: TypeAlias = Literal["exact", "semantic", "flight"]
"""How a cached answer was found: the same words, other words that mean the same, or an answer still being written."""


# --- where a question may look -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Match:
    """A payload field equals one of the values."""

    field: str
    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """A numeric payload field lies in [gte, lt); either end may be open."""

    field: str
    gte: float | None = None
    lt: float | None = None


@dataclass(frozen=True, slots=True)
class And:
    clauses: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Or:
    clauses: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    clause: Filter


Filter: TypeAlias = "Match | Range | And | Or | Not"


@dataclass(frozen=True, slots=True)
class Scope:
    """The part of the store a question may see. A tenant is always named; no scope spans two."""

    tenant: str
    collections: tuple[str, ...] = ()
    """Empty means every collection of the tenant."""
    filter: Filter | None = None


# --- what is stored ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Passage:
    """A span of one version of a document: what is retrieved, quoted and cited."""

    id: str
    """UUID derived from tenant, collection, document, version and position: stable, idempotent."""
    tenant: str
    collection: str
    document_id: str
    version: str
    """Content hash of the document: a cited version identifies the exact bytes read."""
    position: int
    """0-based ordinal of the passage within the document."""
    text: str
    start: int
    end: int
    """Character span in the document's decoded text."""
    title: str = ""
    source: str = ""
    """Where the document came from, as the user named it: a relative path or a URL."""
    headings: tuple[str, ...] = ()
    type: str = "text"
    """Document type: markdown, text, html, pdf, docx."""
    time: float = 0.0
    """Modification time of the document."""
    language: Language = "other"
    page: int | None = None
    metadata: Mapping[str, Scalar] = field(default_factory=dict)
    """Any further payload that filters may name."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """One text through the encoder: a single forward pass gives both parts."""

    dense: Vector
    """(d,) float32, L2-normalised."""
    tokens: Matrix
    """(n, d) float32, each row L2-normalised; special and prefix tokens are left out."""
    offsets: NDArray[np.int32]
    """(n, 2) character span of each token row in the text given."""


@dataclass(frozen=True, slots=True)
class IndexedPassage:
    """A passage with what the store indexes it by."""

    passage: Passage
    encoding: Encoding


@dataclass(frozen=True, slots=True)
class TokenVectors:
    """Token vectors of a stored passage, for late interaction outside the store."""

    tokens: Matrix
    """(n, d) float32: what the store's compression gives back."""
    offsets: NDArray[np.int32]
    """(n, 2) character spans in the passage's text."""


class Hit(NamedTuple):
    """One result of one search leg. Hundreds are made for a question, each in half a dataclass's time."""

    passage_id: str
    score: float


# --- the question's side -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Turn:
    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters in OpenAI's terms."""

    max_tokens: int = 256
    temperature: float = 0.0
    top_p: float = 1.0
    stop: tuple[str, ...] = ()
    seed: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    json_schema: str | None = None
    length_given: bool = False
    """The caller set `max_tokens`; otherwise the router may ask for less, by tier."""


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How one question is searched, where the caller says so; None takes the setting."""

    mode: Mode = "hybrid"
    """Both legs fused, or one alone."""
    dense_weight: float | None = None
    sparse_weight: float | None = None
    rrf_k: int | None = None
    dense_limit: int | None = None
    sparse_limit: int | None = None
    expand: Expansion | None = None
    """Whether the query is also searched in other words: see slipstream.answer.expand."""
    per_document: int | None = None
    """Passages of one document, as long as other documents have something to say; 0 sets no bound."""
    near_duplicate: float | None = None
    """Share of common character trigrams from which on two passages count as one; 1 means the same text only."""
    neighbours: int | None = None
    """Passages before and behind each one found that are joined to it."""


USUAL_SEARCH = SearchOptions()
"""What nearly every question comes with, so that the path can tell it by identity."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a caller asked, as admitted."""

    text: str
    scope: Scope
    history: tuple[Turn, ...] = ()
    """Earlier turns, oldest first, without the question itself."""
    instructions: str = ""
    """The caller's own system message, added after ours."""
    sampling: Sampling = Sampling()
    route: Tier | None = None
    """A tier the caller insists on; None lets the router choose."""
    passages: int | None = None
    """How many passages to cite at most; None takes the setting."""
    candidates: int | None = None
    """How many fused candidates late interaction scores; 0 skips it, None takes the setting."""
    cache: CacheUse = "auto"
    """Whether a stored answer may serve (auto), is written anew (refresh), or is neither read nor written (off)."""
    cache_max_age_s: float | None = None
    """Oldest stored answer that may serve; None takes the setting."""
    cache_tag: str = ""
    """A name of the caller's that stored answers can be purged by."""
    pairs: int | None = None
    """How many of those the cross-encoder decides among; 0 skips it, None takes the setting."""
    search: SearchOptions = USUAL_SEARCH


@dataclass(frozen=True, slots=True)
class Query:
    """A stand-alone, normalised form of the question, ready for both search legs."""

    text: str
    language: Language
    rewritten: bool = False
    reason: str = ""
    """Why the rewriter did what it did: it goes on the trace."""
    certain: bool = True
    """False when the rules could not tell whether, or how, the question needs its history."""


@dataclass(frozen=True, slots=True)
class Leg:
    """What one search found: one side of the query, or of one of its variants."""

    kind: Literal["dense", "sparse"]
    query: str
    hits: Sequence[Hit]
    """Best first."""


class Candidate(NamedTuple):
    """A passage id with its fused score and its 1-based rank in each leg that found it. As many as hits."""

    passage_id: str
    score: float
    dense_rank: int | None = None
    sparse_rank: int | None = None
    sparse_share: float = 0.0
    """Its BM25 score as a share of the best one's, 0…1; 0 when that leg did not find it."""


@dataclass(frozen=True, slots=True)
class Candidates:
    query: Query
    encoding: Encoding
    items: tuple[Candidate, ...]
    """Best first."""
    legs: tuple[Leg, ...] = ()
    """What they were fused from: the query's own legs, then those of its variants."""


@dataclass(frozen=True, slots=True)
class ScoredSpan:
    """A sentence of a passage's text with its late-interaction score per query token."""

    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """A retrieved passage with its rank score and the sentence that answers best."""

    passage: Passage
    score: float
    """Late-interaction score per query token, in [-1, 1], when `scorer` is "maxsim"; the cross-encoder's relevance,
    in [0, 1] for local ones, when it is "cross_encoder"."""
    scorer: Scorer
    sentence: tuple[int, int]
    """Span of the best sentence in the passage's text."""
    sentence_score: float
    sentence_margin: float = 0.0
    """Best minus second-best sentence score in this passage: a crude confidence."""
    others: tuple[ScoredSpan, ...] = ()
    """The next best sentences, best first."""


@dataclass(frozen=True, slots=True)
class Passages:
    query: Query
    items: tuple[Evidence, ...]
    """Most relevant first. Empty: nothing in the scope answers."""


@dataclass(frozen=True, slots=True)
class Message:
    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the model is given, and how its citation numbers map back to evidence."""

    messages: tuple[Message, ...]
    evidence: tuple[Evidence, ...]
    """evidence[i] is cited as [i + 1]."""
    shown: frozenset[int]
    """Numbers of the evidence that the messages hold: the model can have read no other."""
    tokens: int
    """Prompt length by the model's own tokenizer, template included."""
    language: Language


@dataclass(frozen=True, slots=True)
class Route:
    tier: Tier
    reason: str
    sampling: Sampling


@dataclass(frozen=True, slots=True)
class Usage:
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    """Prompt tokens served from the engine's prefix cache."""


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of generated text: whole characters only, possibly several model tokens."""

    text: str
    count: int = 1
    """How many model tokens this piece closes."""
    finish_reason: FinishReason | None = None
    usage: Usage | None = None
    """Set on the last piece."""


Tokens: TypeAlias = tuple[Token, ...]
"""What was ready together, at least one piece: a stream that is ahead of its reader costs one hand-over, not many."""


@dataclass(frozen=True, slots=True)
class Citation:
    """A marker in the answer resolved to document, section and span."""

    index: int
    """The number used in the answer's [n]."""
    passage: Passage
    sentence: tuple[int, int]
    """Span of the best sentence in the passage's text."""
    score: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one check of a stored answer said."""

    check: str
    passed: bool
    detail: str


@dataclass(frozen=True, slots=True)
class CacheDecision:
    """What the answer cache did for one request, and why."""

    status: CacheStatus
    level: CacheLevel | None = None
    age_s: float | None = None
    """Since the answer that was served was written."""
    verdicts: tuple[Verdict, ...] = ()
    entry: str = ""
    """Id of the stored answer, for feedback; empty when there is none."""


@dataclass(frozen=True, slots=True)
class Answer:
    text: str
    citations: tuple[Citation, ...]
    """Those the text refers to, by first appearance."""
    finish_reason: FinishReason
    usage: Usage
    tier: Tier
    model: str
    supported: bool
    """False when the text cites nothing it was given: the reader is told."""
    cache: CacheDecision | None = None
    """None when no cache is configured."""


# --- what the wire sees of the path, in order ---------------------------------------------------


@dataclass(frozen=True, slots=True)
class Found:
    """First event of a stream: the evidence, before the model has read it."""

    query: Query
    citations: tuple[Citation, ...]


@dataclass(frozen=True, slots=True)
class Finished:
    """Last event of a stream."""

    answer: Answer


Event: TypeAlias = Found | Tokens | Finished
