"""Passages → Passages as they are shown: duplicates collapsed, documents held to their share, neighbours joined."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from slipstream.answer.neighbours import with_neighbours
from slipstream.call import Call
from slipstream.settings import RetrievalSettings
from slipstream.stores.base import Store
from slipstream.types import Evidence, Passages, Question

_NUMBER = re.compile(r"\d+")
_SPARE_OF = 3
"""One passage more for each so many is asked of reranking, so that a collapsed one leaves no gap."""
_SPREAD_SPARE = 4
"""Times as many when a document is held to a share: the others' passages may come far behind its own."""


class Shaper:
    """The last word on which passages are cited; without duplicates and options it costs a few microseconds."""

    def __init__(self, store: Store, settings: RetrievalSettings) -> None:
        self._store = store
        self._settings = settings

    def widened(self, question: Question) -> Question:
        """The question for the stages before: a few passages more than are shown."""
        limit = question.passages or self._settings.passages
        spare = limit * _SPREAD_SPARE if self._per_document(question) else 1 + limit // _SPARE_OF
        return replace(question, passages=limit + spare)

    async def __call__(self, passages: Passages, question: Question, call: Call) -> Passages:
        """At most as many as the question, or the setting, wants; most relevant first."""
        options, settings = question.search, self._settings
        limit = question.passages or settings.passages
        near = settings.near_duplicate if options.near_duplicate is None else options.near_duplicate
        kept = distinct(passages.items, near)
        shown = spread(kept, self._per_document(question), limit)
        if len(kept) < len(passages.items):
            call.mark("collapsed", passages=len(passages.items) - len(kept))
        around = settings.neighbours if options.neighbours is None else options.neighbours
        if around and shown:
            with call.stage("neighbours", around=around):
                shown = await with_neighbours(shown, around, self._store, question.scope)
        return Passages(passages.query, tuple(shown))

    def _per_document(self, question: Question) -> int:
        asked = question.search.per_document
        return self._settings.per_document if asked is None else asked


def distinct(items: Sequence[Evidence], near: float = 1.0) -> list[Evidence]:
    """The best-ranked of each group of equal texts, or of texts whose character trigrams overlap by `near` or more.

    White space does not count. Texts whose numbers differ are never duplicates: that is where versions of one
    sentence contradict each other. Source of the measure: Broder, On the Resemblance of Documents, 1997.
    """
    kept: dict[str, Evidence] = {}
    trigrams: list[_Trigrams] = []
    for item in items:
        text = "".join(item.passage.text.split())
        if text in kept:
            continue
        if near < 1:
            own = _Trigrams(text)
            if any(own.resembles(other, near) for other in trigrams):
                continue
            trigrams.append(own)
        kept[text] = item
    return list(kept.values())


def spread(items: Sequence[Evidence], per_document: int, limit: int) -> list[Evidence]:
    """The best `limit`, at most `per_document` of one document unless nothing else is left; order is kept."""
    if not per_document:
        return list(items[:limit])
    seen: Counter[tuple[str, str]] = Counter()
    within: list[int] = []
    beyond: list[int] = []
    for place, item in enumerate(items):
        document = (item.passage.collection, item.passage.document_id)
        seen[document] += 1
        (within if seen[document] <= per_document else beyond).append(place)
    return [items[place] for place in sorted((within + beyond)[:limit])]


class _Trigrams:
    __slots__ = ("_grams", "_numbers")

    def __init__(self, text: str) -> None:
        self._grams = set(zip(text, text[1:], text[2:], strict=False))
        self._numbers = _NUMBER.findall(text)

    def resembles(self, other: _Trigrams, least: float) -> bool:
        """Jaccard similarity of at least `least`, and the same numbers in the same order."""
        small, large = sorted((len(self._grams), len(other._grams)))
        if not large or small < least * large or self._numbers != other._numbers:
            return False
        shared = len(self._grams & other._grams)
        return shared >= least * (small + large - shared)
