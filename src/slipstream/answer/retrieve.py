"""Query → Candidates: dense and sparse search at the same time, fused by rank."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from slipstream.answer.fuse import reciprocal_rank_fusion
from slipstream.call import Call
from slipstream.errors import TryAgain
from slipstream.settings import RetrievalSettings
from slipstream.stores.base import Store
from slipstream.types import USUAL_SEARCH, Candidates, Encoding, Hit, Leg, Query, Question, SearchOptions

EncodeQuery: TypeAlias = Callable[[str], Awaitable[Encoding]]

_LONE_LIMIT = 50
"""Of a leg that is asked for alone while the settings leave it out."""


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """Options with the settings filled in; a leg of limit 0 is not searched."""

    dense_limit: int
    sparse_limit: int
    dense_weight: float
    sparse_weight: float
    rrf_k: int


def search_plan(options: SearchOptions, settings: RetrievalSettings) -> SearchPlan:
    """What a question's own options and the settings come to."""
    dense = settings.dense_limit if options.dense_limit is None else options.dense_limit
    sparse = settings.sparse_limit if options.sparse_limit is None else options.sparse_limit
    k = settings.rrf_k if options.rrf_k is None else options.rrf_k
    if options.mode == "dense":
        return SearchPlan(dense or _LONE_LIMIT, 0, 1.0, 1.0, k)
    if options.mode == "sparse":
        return SearchPlan(0, sparse or _LONE_LIMIT, 1.0, 1.0, k)
    dense_weight = settings.dense_weight if options.dense_weight is None else options.dense_weight
    sparse_weight = settings.sparse_weight if options.sparse_weight is None else options.sparse_weight
    return SearchPlan(dense if dense_weight else 0, sparse if sparse_weight else 0, dense_weight, sparse_weight, k)


class Retriever:
    """Both legs start at once: sparse needs no encoding, so it runs while the query is encoded."""

    def __init__(self, store: Store, encode: EncodeQuery, settings: RetrievalSettings) -> None:
        self._store = store
        self._encode = encode
        self._settings = settings
        self._usual = search_plan(USUAL_SEARCH, settings)

    def plan(self, question: Question) -> SearchPlan:
        return self._usual if question.search is USUAL_SEARCH else search_plan(question.search, self._settings)

    async def __call__(self, query: Query, question: Question, call: Call) -> Candidates:
        """Candidates inside the question's scope, best first.

        When one leg fails for a passing reason the other serves alone and the call says so.
        Raises the first leg's error when both fail.
        """
        call.deadline.check("waiting to search")
        plan = self.plan(question)
        with call.stage("retrieve") as span:
            if not plan.sparse_limit:
                encoding = await self._encoded(query, call)
                dense, sparse = await self._leg("dense", query, encoding, question, plan.dense_limit, call), _NO_LEG
            else:
                encoding, dense, sparse = await self._both(query, question, plan, call)
            if dense.failure and (sparse.failure or not sparse.hits):
                raise dense.failure
            if sparse.failure and not plan.dense_limit:
                raise sparse.failure
            if dense.failure:
                call.degrade("dense_search")
            if sparse.failure:
                call.degrade("sparse_search")
            items = reciprocal_rank_fusion(
                dense.hits,
                sparse.hits,
                k=plan.rrf_k,
                dense_weight=plan.dense_weight,
                sparse_weight=plan.sparse_weight,
            )
            span.detail["candidates"] = len(items)
            legs = (Leg("dense", query.text, dense.hits), Leg("sparse", query.text, sparse.hits))
            return Candidates(query, encoding, items, legs)

    async def variants(self, texts: Sequence[str], encodings: Sequence[Encoding], question: Question) -> list[Leg]:
        """The legs of further wordings, all at the same time; one that fails for a passing reason stays empty."""
        plan = self.plan(question)
        searches: list[tuple[Literal["dense", "sparse"], str, Awaitable[Sequence[Hit]]]] = []
        for text, encoding in zip(texts, encodings, strict=True):
            if plan.dense_limit:
                search = self._store.search_dense(encoding.dense, question.scope, plan.dense_limit)
                searches.append(("dense", text, search))
            if plan.sparse_limit:
                searches.append(("sparse", text, self._store.search_sparse(text, question.scope, plan.sparse_limit)))
        found = await asyncio.gather(*(_spared(search) for _, _, search in searches))
        return [Leg(kind, text, hits) for (kind, text, _), hits in zip(searches, found, strict=True)]

    async def _both(
        self, query: Query, question: Question, plan: SearchPlan, call: Call
    ) -> tuple[Encoding, _Found, _Found]:
        sparse = asyncio.create_task(self._leg("sparse", query, None, question, plan.sparse_limit, call))
        try:
            encoding = await self._encoded(query, call)
            dense = await self._leg("dense", query, encoding, question, plan.dense_limit, call)
            return encoding, dense, await sparse
        except BaseException:
            sparse.cancel()
            await asyncio.gather(sparse, return_exceptions=True)  # its own failure is no news any more
            raise

    async def _encoded(self, query: Query, call: Call) -> Encoding:
        with call.stage("encode"):
            return await self._encode(query.text)

    async def _leg(
        self,
        kind: Literal["dense", "sparse"],
        query: Query,
        encoding: Encoding | None,
        question: Question,
        limit: int,
        call: Call,
    ) -> _Found:
        if not limit:
            return _NO_LEG
        limit = max(limit, question.passages or 0)
        with call.stage(kind) as span:
            try:
                if encoding is None:
                    hits = await self._store.search_sparse(query.text, question.scope, limit)
                else:
                    hits = await self._store.search_dense(encoding.dense, question.scope, limit)
            except TryAgain as error:
                return _Found((), error)
            span.detail["hits"] = len(hits)
            return _Found(hits)


@dataclass(frozen=True, slots=True)
class _Found:
    hits: Sequence[Hit]
    failure: TryAgain | None = None


_NO_LEG = _Found(())


async def _spared(search: Awaitable[Sequence[Hit]]) -> Sequence[Hit]:
    try:
        return await search
    except TryAgain:
        return ()
