"""Candidates → Passages: late interaction orders the fused list and marks each passage's best sentence."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from slipstream.call import Call
from slipstream.runtime.workers import Worker
from slipstream.settings import RetrievalSettings
from slipstream.stores.base import Store
from slipstream.text.sentences import sentences
from slipstream.types import Candidates, Evidence, Hit, Matrix, Passage, Passages, Question, Scorer, TokenVectors

_INLINE_MULTIPLICATIONS = 1_000_000
"""Below this (about 0.1 ms) handing the work to a thread costs more than doing it."""


@dataclass(frozen=True, slots=True)
class _Ranked:
    scorer: Scorer
    hits: Sequence[Hit]


class Reranker:
    """MaxSim over token vectors stored at ingest; the query's come from the same pass as its dense vector."""

    def __init__(self, store: Store, settings: RetrievalSettings, worker: Worker) -> None:
        self._store = store
        self._settings = settings
        self._worker = worker

    async def __call__(self, candidates: Candidates, question: Question, call: Call) -> Passages:
        """The best passages, most relevant first; empty when none scores above the floor.

        Scores are MaxSim divided by the number of query tokens, so they compare across questions.
        """
        with call.stage("rerank") as span:
            limit = question.passages or self._settings.passages
            ranked = await self._ranked(candidates, question, call)
            span.detail["scored"] = len(ranked.hits)
            kept = [
                hit for hit in ranked.hits[:limit] if ranked.scorer == "rrf" or hit.score >= self._settings.min_score
            ]
            evidence = await self._evidence(kept, ranked.scorer, candidates, question) if kept else ()
            span.detail["kept"] = len(evidence)
            return Passages(candidates.query, evidence)

    async def _ranked(self, candidates: Candidates, question: Question, call: Call) -> _Ranked:
        query_tokens = candidates.encoding.tokens
        limit = self._settings.rerank_limit if question.candidates is None else question.candidates
        if not limit or not len(query_tokens):
            return _Ranked("rrf", [Hit(c.passage_id, c.score) for c in candidates.items])
        ids = [candidate.passage_id for candidate in candidates.items[:limit]]
        if not ids:
            return _Ranked("maxsim", [])
        with call.stage("late_interaction", candidates=len(ids)):
            hits = await self._store.score_tokens(query_tokens, ids, question.scope)
        return _Ranked("maxsim", [Hit(hit.passage_id, hit.score / len(query_tokens)) for hit in hits])

    async def _evidence(
        self, hits: Sequence[Hit], scorer: Scorer, candidates: Candidates, question: Question
    ) -> tuple[Evidence, ...]:
        ids = [hit.passage_id for hit in hits]
        passages, vectors = await asyncio.gather(
            self._store.fetch(ids, question.scope), self._store.fetch_tokens(ids, question.scope)
        )
        scores = {hit.passage_id: hit.score for hit in hits}
        query_tokens = candidates.encoding.tokens
        work = query_tokens.size * sum(len(v.tokens) for v in vectors.values())
        if work <= _INLINE_MULTIPLICATIONS:
            return _mark(query_tokens, passages, vectors, scores, scorer)
        return await self._worker.run(_mark, query_tokens, passages, vectors, scores, scorer)


def _mark(
    query_tokens: Matrix,
    passages: Sequence[Passage],
    vectors: Mapping[str, TokenVectors],
    scores: Mapping[str, float],
    scorer: Scorer,
) -> tuple[Evidence, ...]:
    return tuple(
        mark_sentence(query_tokens, passage, vectors[passage.id], scores[passage.id], scorer)
        for passage in passages
        if passage.id in vectors
    )


def mark_sentence(
    query_tokens: Matrix, passage: Passage, vectors: TokenVectors, score: float, scorer: Scorer = "maxsim"
) -> Evidence:
    """Marks the sentence whose tokens alone give the highest MaxSim per query token.

    query_tokens: (q, d), rows L2-normalised, as are the passage's (n, d).
    """
    spans = sentences(passage.text) or [(0, len(passage.text))]
    similarity = query_tokens @ vectors.tokens.T
    sentence_scores = [_sentence_score(similarity, vectors, start, end) for start, end in spans]
    order = sorted(range(len(spans)), key=lambda i: (-sentence_scores[i], i))
    best = sentence_scores[order[0]]
    margin = best - sentence_scores[order[1]] if len(order) > 1 else best
    return Evidence(passage, score, scorer, spans[order[0]], best, margin)


def _sentence_score(similarity: Matrix, vectors: TokenVectors, start: int, end: int) -> float:
    first, last = np.searchsorted(vectors.offsets[:, 0], (start, end))
    if first == last or not len(similarity):
        return -1.0
    return float(similarity[:, first:last].max(axis=1).mean())
