"""BM25 weights that depend on one passage alone, so that order never depends on what was deleted before.

score(q, d) = Σ_t w(t) · idf(t) · f(t,d)·(k1+1) / (f(t,d) + k1·(1 − b + b·|d|/L)),  idf(t) = ln(1 + (N − n + ½)/(n + ½))

w is 1, or more for an identifier. N and n count passages of the question's tenant. L is a constant instead of the
collection's average, since an average moves with every write while weights already stored do not. k1, b and L were
chosen on XQuAD (en, zh) and CMRC2018.
Sources: Robertson & Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", FnTIR 3(4), 2009; the idf
that never goes negative is Lucene's BM25Similarity.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from zlib import crc32

from slipstream.text.terms import query_terms, terms

K1 = 1.2
B = 0.5
USUAL_TERMS = 350
"""L: the length, in terms, of a passage that is neither favoured nor held back."""

EXACT_WEIGHT = 3.0
"""A question's identifier is one term, while the words around it are many, in Chinese each several times over."""


@dataclass(frozen=True, slots=True)
class SparseTerms:
    """Hashed terms with their weights; ids are distinct."""

    ids: list[int]
    """crc32 of the term's UTF-8 bytes: two of a million terms share one about once in eight thousand."""
    weights: list[float]


def passage_terms(text: str) -> SparseTerms:
    """The term-frequency half of BM25 for one passage."""
    counts = Counter(_hash(term) for term in terms(text))
    norm = K1 * (1 - B + B * counts.total() / USUAL_TERMS)
    return SparseTerms(list(counts), [count * (K1 + 1) / (count + norm) for count in counts.values()])


def question_terms(text: str) -> SparseTerms:
    """Distinct terms of a question with their weights before idf."""
    weights = {_hash(term.text): EXACT_WEIGHT if term.exact else 1.0 for term in query_terms(text)}
    return SparseTerms(list(weights), list(weights.values()))


def idf(containing: int, passages: int) -> float:
    return math.log(1 + (passages - containing + 0.5) / (containing + 0.5))


def _hash(term: str) -> int:
    return crc32(term.encode("utf-8", "surrogatepass"))
