"""Wraps retrieval: searches the query in other words too, on request or when the first search looks weak."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from slipstream.answer.confidence import Confidence
from slipstream.answer.fuse import fuse_legs
from slipstream.answer.retrieve import Retriever
from slipstream.answer.variants import MOST, other_wordings
from slipstream.answer.wording import Wording
from slipstream.call import Call
from slipstream.settings import RetrievalSettings
from slipstream.types import Candidates, Encoding, Expansion, Query, Question

EncodeQueries: TypeAlias = Callable[[Sequence[str]], Awaitable[Sequence[Encoding]]]

CONFIDENT = 0.7
"""Below it `auto` searches again: one XQuAD question in eight, among them nearly all whose first passage is wrong."""


class Expander:
    """Variants are encoded in one batch and searched at the same time; together they weigh as much as the query.

    Late interaction judges by the query alone, so variants bring candidates in and never decide their order.
    """

    def __init__(
        self,
        retrieve: Retriever,
        encode: EncodeQueries,
        wording: Wording,
        settings: RetrievalSettings,
        confidence: Confidence,
    ) -> None:
        self._retrieve = retrieve
        self._encode = encode
        self._wording = wording
        self._settings = settings
        self._confidence = confidence

    async def __call__(self, query: Query, question: Question, call: Call) -> Candidates:
        """Raises what the retriever raises."""
        how = question.search.expand or self._settings.expand
        if not query.certain and self._settings.condense:
            query = await self._wording.stand_alone(query, question, call)
        if how == "none":
            return await self._retrieve(query, question, call)
        if how == "auto":
            candidates = await self._retrieve(query, question, call)
            sure = self._confidence(candidates)
            call.mark("confidence", value=round(sure, 3))
            texts = () if sure >= CONFIDENT else other_wordings(query)
        else:
            candidates, texts = await self._meanwhile(query, question, call, how)
        return await self._widened(candidates, texts, question, call, how) if texts else candidates

    async def _meanwhile(
        self, query: Query, question: Question, call: Call, how: Expansion
    ) -> tuple[Candidates, tuple[str, ...]]:
        """The first search while the variants are being thought up."""
        wording = asyncio.create_task(self._texts(query, call, how))
        try:
            return await self._retrieve(query, question, call), await wording
        except BaseException:
            wording.cancel()
            await asyncio.gather(wording, return_exceptions=True)
            raise

    async def _texts(self, query: Query, call: Call, how: Expansion) -> tuple[str, ...]:
        if how == "hyde":
            return await self._wording.imagined(query, call)
        texts = other_wordings(query)
        if self._wording.speaks(query.language):
            texts = tuple(dict.fromkeys((*texts, *await self._wording.paraphrases(query, call))))
        return texts[:MOST]

    async def _widened(
        self, candidates: Candidates, texts: Sequence[str], question: Question, call: Call, how: Expansion
    ) -> Candidates:
        plan = self._retrieve.plan(question)
        with call.stage("expand", how=how, variants=len(texts)) as span:
            legs = (
                *candidates.legs,
                *await self._retrieve.variants(texts, await self._encode(texts), question),
            )
            weight = {"dense": plan.dense_weight, "sparse": plan.sparse_weight}
            own = len(candidates.legs)
            weights = [weight[leg.kind] / (1 if i < own else len(texts)) for i, leg in enumerate(legs)]
            items = fuse_legs(legs, weights, plan.rrf_k)
            span.detail["added"] = len(items) - len(candidates.items)
            return replace(candidates, items=items, legs=legs)
