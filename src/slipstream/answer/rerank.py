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
from slipstream.types import (
    Candidates,
    Evidence,
    Hit,
    Language,
    Matrix,
    Passage,
    Passages,
    Question,
    ScoredSpan,
    Scorer,
    TokenVectors,
)

_OTHER_SENTENCES = 2
"""Kept beside each passage's best sentence, for prompts made of sentences."""
_INLINE_MULTIPLICATIONS = 1_000_000
"""Below this (about 0.1 ms) handing the work to a thread costs more than doing it."""


@dataclass(frozen=True, slots=True)
class Floor:
    """Late-interaction scores per query token below which a passage is no evidence for a question."""

    within: float
    """When question and passage share a language."""
    across: float
    """When they do not: encoders score translations lower."""

    def admits(self, evidence: Evidence, language: Language) -> bool:
        if evidence.scorer != "maxsim":
            return True
        return evidence.score >= (self.within if evidence.passage.language == language else self.across)


NO_FLOOR = Floor(-1.0, -1.0)


@dataclass(frozen=True, slots=True)
class _Ranked:
    scorer: Scorer
    hits: Sequence[Hit]


class Reranker:
    """MaxSim over token vectors stored at ingest; the query's come from the same pass as its dense vector."""

    def __init__(self, store: Store, settings: RetrievalSettings, worker: Worker, floor: Floor = NO_FLOOR) -> None:
        self._floor = floor
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
            kept = [hit for hit in ranked.hits[:limit] if ranked.scorer == "rrf" or hit.score >= self._floor.across]
            evidence = await self._evidence(kept, ranked.scorer, candidates, question) if kept else ()
            evidence = tuple(item for item in evidence if self._floor.admits(item, candidates.query.language))
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
    scores = _sentence_scores(query_tokens @ vectors.tokens.T, vectors, spans)
    scored = [ScoredSpan(start, end, score) for (start, end), score in zip(spans, scores, strict=True)]
    scored.sort(key=lambda span: (-span.score, span.start))
    best, *others = scored[: 1 + _OTHER_SENTENCES]
    margin = best.score - others[0].score if others else best.score
    return Evidence(passage, score, scorer, (best.start, best.end), best.score, margin, tuple(others))


def _sentence_scores(similarity: Matrix, vectors: TokenVectors, spans: Sequence[tuple[int, int]]) -> list[float]:
    """MaxSim per query token within each span; -1 for a span without tokens.

    similarity: (q, n). Spans are in order and do not overlap, as `sentences` gives them.
    """
    starts = vectors.offsets[:, 0]
    bounds = np.searchsorted(starts, np.asarray(spans, np.int32)).tolist()
    if not similarity.size:
        return [-1.0] * len(spans)
    return [float(similarity[:, a:b].max(axis=1).mean()) if a < b else -1.0 for a, b in bounds]
