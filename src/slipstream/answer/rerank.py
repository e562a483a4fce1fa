"""Candidates → Passages, in a cascade: late interaction narrows, a cross-encoder decides, sentences are marked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from slipstream.answer.cross_encode import CrossEncode
from slipstream.answer.identifiers import identifiers
from slipstream.answer.late_interaction import NO_FLOOR, Floor, LateInteraction
from slipstream.answer.mark import Ranked, mark
from slipstream.call import Call
from slipstream.runtime.workers import Worker
from slipstream.settings import RetrievalSettings
from slipstream.stores.base import Store
from slipstream.types import Candidates, Evidence, Hit, Passage, Passages, Question

__all__ = ["NO_FLOOR", "Floor", "Ranked", "Reranker"]

_INLINE_MULTIPLICATIONS = 1_000_000
"""Below this (about 0.1 ms) handing the work to a thread costs more than doing it."""


class Reranker:
    """Without a cross-encoder, or when it fails, late interaction's order stands."""

    def __init__(
        self,
        store: Store,
        settings: RetrievalSettings,
        worker: Worker,
        floor: Floor = NO_FLOOR,
        cross_encode: CrossEncode | None = None,
    ) -> None:
        self._floor = floor
        self._store = store
        self._settings = settings
        self._worker = worker
        self._late = LateInteraction(store, worker)
        self._cross_encode = cross_encode

    async def __call__(self, candidates: Candidates, question: Question, call: Call) -> Passages:
        """The best passages, most relevant first; empty when none scores above the floor."""
        with call.stage("rerank") as span:
            ranked = await self.narrow(candidates, question, call)
            span.detail["scored"] = len(ranked)
            evidence = await self._evidence(ranked, candidates, question, call) if ranked else ()
            span.detail["kept"] = len(evidence)
            return Passages(candidates.query, evidence)

    async def narrow(self, candidates: Candidates, question: Question, call: Call) -> list[Ranked]:
        """Late interaction's order, or the fused one when it is skipped; best first, without the floor."""
        asked = self._settings.rerank_limit if question.candidates is None else question.candidates
        if not asked or not len(candidates.encoding.tokens):
            return [Ranked(Hit(item.passage_id, item.score), "rrf") for item in candidates.items]
        scored = max(asked, self._limit(question))  # all that is to be shown is scored
        return [Ranked(hit, "maxsim") for hit in await self._late(candidates, scored, question, call)]

    async def decide(
        self, ranked: Sequence[Ranked], passages: Mapping[str, Passage], question: Question, call: Call, query: str
    ) -> list[Ranked]:
        """The first few in the cross-encoder's order, the others behind them as they stood.

        `passages` holds those few at least. The order is kept when there is no cross-encoder or it fails.
        """
        pairs = self._pairs(question)
        head, tail = ranked[:pairs], ranked[pairs:]
        if self._cross_encode is None or not head or head[0].scorer == "rrf":
            return list(ranked)
        scores = await self._cross_encode(query, [passages[one.hit.passage_id] for one in head], call)
        if scores is None:
            return list(ranked)
        decided = [Ranked(Hit(one.hit.passage_id, scores[one.hit.passage_id]), "cross_encoder") for one in head]
        return [*sorted(decided, key=lambda one: -one.hit.score), *tail]

    async def _evidence(
        self, ranked: Sequence[Ranked], candidates: Candidates, question: Question, call: Call
    ) -> tuple[Evidence, ...]:
        limit = self._limit(question)
        head = [one for one in ranked[: max(limit, self._pairs(question))] if self._floor.may_admit(one)]
        if not head:
            return ()
        ids = [one.hit.passage_id for one in head]
        fetched, vectors = await asyncio.gather(
            self._store.fetch(ids, question.scope), self._store.fetch_tokens(ids[:limit], question.scope)
        )
        passages = {passage.id: passage for passage in fetched}
        query = candidates.query
        kept = [
            one
            for one in head
            if (passage := passages.get(one.hit.passage_id)) is not None
            and self._floor.admits(one, passage, query.language)
        ]
        chosen = (await self.decide(kept, passages, question, call, query.text))[:limit]
        late = [one.hit.passage_id for one in chosen if one.hit.passage_id not in vectors]
        if late:
            vectors = {**vectors, **await self._store.fetch_tokens(late, question.scope)}
        query_tokens, named = candidates.encoding.tokens, identifiers(query.text)
        work = query_tokens.size * sum(len(own.tokens) for own in vectors.values())
        if work <= _INLINE_MULTIPLICATIONS:
            return mark(query_tokens, named, chosen, passages, vectors)
        return await self._worker.run(mark, query_tokens, named, chosen, passages, vectors)

    def _limit(self, question: Question) -> int:
        return question.passages or self._settings.passages

    def _pairs(self, question: Question) -> int:
        """How many candidates the cross-encoder decides among."""
        if self._cross_encode is None:
            return 0
        return self._settings.cross_encoder_limit if question.pairs is None else question.pairs
