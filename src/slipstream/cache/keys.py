"""What an answer depends on beside the words of its question: derived on the server, never taken from a client."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, fields
from typing import Any

from slipstream.types import Query, Question

_NOT_PART_OF_SCOPE = frozenset({"text", "scope", "cache", "cache_max_age_s", "cache_tag"})
_PARTS = tuple(field.name for field in fields(Question) if field.name not in _NOT_PART_OF_SCOPE)
"""Whatever else a question carries can change its answer, options added later included."""
_ENDING = re.compile(r"[\s?？。.!！]+$")


@dataclass(frozen=True, slots=True)
class Key:
    """Where an answer is looked for."""

    tenant: str
    scope: str
    """Digest of everything but the words: no answer is ever shared between two scopes."""
    text: str
    """The stand-alone question, normalised."""


def key_of(question: Question, query: Query, house: str) -> Key:
    """`query` is the condensed, normalised question; `house` a digest of models, prompts and settings.

    The scope holds tenant, collections, filters, instructions, conversation, tier, sampling, search options,
    language and `house`; about 15 µs.
    """
    where = question.scope
    parts: tuple[Any, ...] = (
        house,
        where.tenant,
        tuple(sorted(set(where.collections))),
        where.filter,
        query.language,
        *(getattr(question, name) for name in _PARTS),
    )
    return Key(where.tenant, digest(repr(parts)), _ENDING.sub("", query.text))


def digest(text: str) -> str:
    """32 hexadecimal digits."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
