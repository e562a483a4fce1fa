"""Passage → what it is indexed by: its encoding with the headings in view, rows of its own text only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slipstream.models.base import Encoder
from slipstream.types import Encoding, IndexedPassage, Passage

_MAX_CONTEXT_CHARACTERS = 160


def context_of(passage: Passage) -> str:
    """The headings a reader would have seen above the passage, as a line to put before it; or nothing.

    Those its own first lines repeat are left out.
    """
    opening = passage.text[:400]
    missing = [heading for heading in passage.headings if heading not in opening]
    line = " > ".join(missing)[-_MAX_CONTEXT_CHARACTERS:]
    return f"{line}\n" if line else ""


async def index_passages(passages: Sequence[Passage], encoder: Encoder) -> list[IndexedPassage]:
    """Encodes passages in one batch, in order. Raises what the encoder raises."""
    contexts = [context_of(passage) for passage in passages]
    texts = [context + passage.text for context, passage in zip(contexts, passages, strict=True)]
    encodings = await encoder.encode(texts, "passage")
    return [
        IndexedPassage(passage, _without_context(encoding, len(context)))
        for passage, context, encoding in zip(passages, contexts, encodings, strict=True)
    ]


def _without_context(encoding: Encoding, length: int) -> Encoding:
    """Shifts token spans to the passage's own text, and drops the rows that lie before it."""
    if not length:
        return encoding
    offsets = encoding.offsets - length
    own = offsets[:, 1] > 0
    return replace(encoding, tokens=encoding.tokens[own], offsets=offsets[own].clip(min=0))
