"""Passages → Evidence: marks in each passage the sentence that answers best, by late interaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slipstream.answer.identifiers import Identifiers
from slipstream.text.sentences import sentences
from slipstream.types import Evidence, Hit, Matrix, Passage, ScoredSpan, Scorer, TokenVectors, Vector

NAMED_BONUS = 0.04
"""What holding every identifier of the question adds to a score. Encoders hardly tell `E1234-5` from `E1235-4`
(up to .024 apart, in either direction), while what is off the subject scores .1 lower and stays there."""
_OTHER_SENTENCES = 2
"""Kept beside each passage's best sentence, for prompts made of sentences."""
_NO_TOKENS = -1.0
"""The score of a sentence of which the encoder has seen no token."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A hit and what scored it."""

    hit: Hit
    scorer: Scorer


def mark(
    query_tokens: Matrix,
    named: Identifiers,
    ranked: Sequence[Ranked],
    passages: Mapping[str, Passage],
    vectors: Mapping[str, TokenVectors],
) -> tuple[Evidence, ...]:
    """Evidence in the order of `ranked`; what has no passage or no token vectors any more is left out.

    A sentence's score is the MaxSim of its tokens alone, per query token, identifiers favoured.
    query_tokens: (q, d), rows L2-normalised, as are the passages' (n, d).
    """
    there = [one for one in ranked if one.hit.passage_id in passages and one.hit.passage_id in vectors]
    texts = [passages[one.hit.passage_id] for one in there]
    spans = [sentences(passage.text) or ((0, len(passage.text)),) for passage in texts]
    scores = sentence_scores(query_tokens, [vectors[passage.id] for passage in texts], spans)
    marked = []
    at = 0
    for one, passage, own in zip(there, texts, spans, strict=True):
        marked.append(_evidence(one, passage, own, scores[at : at + len(own)], named))
        at += len(own)
    return tuple(marked)


def _evidence(
    one: Ranked, passage: Passage, spans: Sequence[tuple[int, int]], scores: Sequence[float], named: Identifiers
) -> Evidence:
    if named:
        shares = [named.share_in(passage.text[start:end]) for start, end in spans]
        scores = [score + NAMED_BONUS * share for score, share in zip(scores, shares, strict=True)]
    order = sorted(range(len(spans)), key=lambda i: (-scores[i], i))[: 1 + _OTHER_SENTENCES]
    best, *others = [ScoredSpan(*spans[i], scores[i]) for i in order]
    margin = best.score - others[0].score if others else best.score
    return Evidence(passage, one.hit.score, one.scorer, (best.start, best.end), best.score, margin, tuple(others))


def sentence_scores(
    query_tokens: Matrix, vectors: Sequence[TokenVectors], spans: Sequence[Sequence[tuple[int, int]]]
) -> list[float]:
    """MaxSim per query token within each span of each passage, one after another; -1 for a span without tokens.

    Spans are in order and do not overlap, as `sentences` gives them. One product a passage goes into a common array,
    and one reduction takes the maxima of all sentences of all passages.
    """
    total = sum(len(own.tokens) for own in vectors)
    if not len(query_tokens) or not total:
        return [_NO_TOKENS] * sum(map(len, spans))
    similarity: Matrix = np.empty((total + 1, len(query_tokens)), np.float32)
    similarity[total] = _NO_TOKENS  # where a reduction may end that has no row behind it
    bounds: list[NDArray[np.intp]] = []
    at = 0
    for own, places in zip(vectors, spans, strict=True):
        rows = len(own.tokens)
        np.matmul(own.tokens, query_tokens.T, out=similarity[at : at + rows])
        bounds.append(np.searchsorted(own.offsets[:, 0], np.asarray(places, np.int32).reshape(-1)) + at)
        at += rows
    ends = np.concatenate(bounds)
    best = np.maximum.reduceat(similarity, ends, axis=0)[::2]  # every other one is what lies between two sentences
    scores: Vector = best.mean(axis=1)
    scores[ends[::2] >= ends[1::2]] = _NO_TOKENS
    found: list[float] = scores.tolist()
    return found
