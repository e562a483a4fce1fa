"""A corpus of any size that costs nothing to fetch: clustered vectors and texts of a Zipf vocabulary, from a seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from slipstream.types import Encoding, IndexedPassage, Matrix, Passage, Vector

DIMENSIONS = 384
WHOLE, PART, SMALL = "whole", "part", "small"
"""Tenants: nearly everything, a hundredth of it, a thousandth of it (but see `tenant_of`)."""

_LOT = 1_000
_TOPICS, _TOPIC_WORDS = 4_000, 150
_WORDS = 300_000
_STOP = [
    "the",
    "of",
    "and",
    "to",
    "in",
    "a",
    "is",
    "that",
    "for",
    "it",
    "as",
    "was",
    "with",
    "be",
    "by",
    "on",
    "not",
    "he",
    "his",
    "but",
    "at",
    "are",
    "this",
    "have",
    "had",
    "from",
    "or",
    "you",
]
_SYLLABLES = [
    "ka",
    "ri",
    "to",
    "men",
    "sal",
    "vor",
    "ti",
    "lu",
    "pe",
    "no",
    "dra",
    "shi",
    "gol",
    "wen",
    "bar",
    "cu",
    "fi",
    "zo",
    "mar",
    "el",
    "ist",
    "qua",
    "nor",
    "hep",
    "yu",
    "jas",
]
_SPREAD = 0.8
"""Of the vectors of a topic about its centre; centres lie at 1. Among 2,000 passages the nearest neighbour is at a
cosine of 0.87 (median), any two are at 0.67 (mean): crowded into one corner of the sphere, as embeddings are."""
_STEP = 0.25
"""Between a question and the passage it is about, in units of a topic's spread."""
_FROM_TOPIC = 0.25
"""Share of a passage's words that are its topic's own."""
_ID_STRIDE = 0x9E3779B97F4A7C15F39CC0605CEDC835
"""Odd, so that numbers in order become ids all over the place, each once."""


@dataclass(frozen=True, slots=True)
class SyntheticQuery:
    vector: Vector
    text: str


class SyntheticCorpus:
    """Passages 0, 1, 2 …: those of a larger corpus begin with those of a smaller one."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        pick = np.random.default_rng(seed)
        spectrum = 1 / np.sqrt(1 + np.arange(DIMENSIONS) / 16)
        self._spectrum: Vector = (spectrum / np.linalg.norm(spectrum)).astype(np.float32)
        common = pick.standard_normal(DIMENSIONS).astype(np.float32)
        self._common: Vector = common / np.linalg.norm(common)
        self._centres: Matrix = pick.standard_normal((_TOPICS, DIMENSIONS), np.float32) * self._spectrum
        self._topic_words = pick.integers(200, _WORDS, (_TOPICS, _TOPIC_WORDS))
        self._topic_shares = _cumulative(1 / (np.arange(_TOPICS) + 20))
        self._word_shares = _cumulative(1 / (np.arange(_WORDS) + 2.7))

    def passages(self, first: int, last: int) -> Iterator[list[IndexedPassage]]:
        """Passages `first` to `last` - 1 in lots of a thousand; both must be multiples of it."""
        for lot in range(first // _LOT, last // _LOT):
            vectors, texts = self._lot(lot)
            yield [self._passage(lot * _LOT + n, vectors[n], texts[n]) for n in range(_LOT)]

    def queries(self, lot: int, count: int) -> list[SyntheticQuery]:
        """Four to twelve words in a row out of passages of a lot, and their vectors moved a little."""
        vectors, texts = self._lot(lot)
        pick = np.random.default_rng((self._seed, lot, 1))
        found = []
        for vector, text in zip(vectors[:count], texts[:count], strict=True):
            words, length = text.split(), int(pick.integers(4, 13))
            start = int(pick.integers(0, len(words) - length))
            moved = vector + _STEP * 0.55 * self._noise(pick, 1)[0]
            found.append(SyntheticQuery(moved / np.linalg.norm(moved), " ".join(words[start : start + length])))
        return found

    def _lot(self, lot: int) -> tuple[Matrix, list[str]]:
        pick = np.random.default_rng((self._seed, lot))
        topics = np.searchsorted(self._topic_shares, pick.random(_LOT))
        vectors = 0.55 * (self._centres[topics] + _SPREAD * self._noise(pick, _LOT)) + self._common
        lengths = pick.integers(60, 160, _LOT)
        total = int(lengths.sum())
        common = np.searchsorted(self._word_shares, pick.random(total))
        own = self._topic_words[np.repeat(topics, lengths), (_TOPIC_WORDS * pick.random(total) ** 2).astype(int)]
        words = np.where(pick.random(total) < _FROM_TOPIC, own, common)
        texts = [" ".join(self._vocabulary[chosen]) for chosen in np.split(words, np.cumsum(lengths)[:-1])]
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32), texts

    def _noise(self, pick: np.random.Generator, count: int) -> Matrix:
        return pick.standard_normal((count, DIMENSIONS), np.float32) * self._spectrum

    def _passage(self, number: int, vector: Vector, text: str) -> IndexedPassage:
        document = number // 10
        passage = Passage(
            id=str(UUID(int=number * _ID_STRIDE % (1 << 128))),
            tenant=tenant_of(number),
            collection=f"c{document % 10}",
            document_id=f"d{document}",
            version=f"v{document}",
            position=number % 10,
            text=text,
            start=0,
            end=len(text),
            title=f"Document {document}",
            source=f"docs/{document}.md",
            type=("pdf", "html", "text", "markdown")[document % 4],
            time=float(number),
            language="en",
        )
        return IndexedPassage(passage, Encoding(vector, _NO_TOKENS, _NO_SPANS))

    @cached_property
    def _vocabulary(self) -> NDArray[np.object_]:
        words = list(_STOP)
        for number in range(_WORDS - len(_STOP)):
            word = ""
            while not word or number:
                number, syllable = divmod(number, len(_SYLLABLES))
                word += _SYLLABLES[syllable]
            words.append(word)
        return np.array(words, dtype=object)


def tenant_of(number: int) -> str:
    """A thousand passages belong to the small tenant from a million on, a thousandth of fewer."""
    if number % 1_000 == 7:
        return SMALL
    return PART if number % 100 == 3 else WHOLE


def _cumulative(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    sums: NDArray[np.float64] = np.cumsum(weights / weights.sum())
    return sums


_NO_TOKENS: Matrix = np.empty((0, DIMENSIONS), np.float32)
_NO_SPANS = np.empty((0, 2), np.int32)
