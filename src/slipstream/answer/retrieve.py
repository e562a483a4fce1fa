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
from slipstream.types import Candidates, Encoding, Hit, Query, Question

EncodeQuery: TypeAlias = Callable[[str], Awaitable[Encoding]]
Mode: TypeAlias = Literal["hybrid", "dense", "sparse"]


@dataclass(frozen=True, slots=True)
class _Leg:
    hits: Sequence[Hit]
    failure: TryAgain | None = None


class Retriever:
    """Both legs start at once: sparse needs no encoding, so it runs while the query is encoded."""

    def __init__(self, store: Store, encode: EncodeQuery, settings: RetrievalSettings) -> None:
        self._store = store
        self._encode = encode
        self._settings = settings

    async def __call__(self, query: Query, question: Question, call: Call, mode: Mode = "hybrid") -> Candidates:
        """Candidates inside the question's scope, best first.

        When one leg fails for a passing reason the other serves alone and the call says so.
        Raises the first leg's error when both fail.
        """
        call.deadline.check("waiting to search")
        with call.stage("retrieve") as span:
            sparse = asyncio.ensure_future(self._sparse(query, question, call, mode))
            try:
                encoding = await self._encoded(query, call)
                dense = await self._dense(encoding, question, call, mode)
                legs = dense, await sparse
            except BaseException:
                sparse.cancel()
                await asyncio.gather(sparse, return_exceptions=True)  # its own failure is no news any more
                raise
            self._record_failures(*legs, call)
            items = reciprocal_rank_fusion(
                legs[0].hits,
                legs[1].hits,
                k=self._settings.rrf_k,
                dense_weight=self._settings.dense_weight if mode == "hybrid" else 1.0,
                sparse_weight=self._settings.sparse_weight if mode == "hybrid" else 1.0,
            )
            span.detail["candidates"] = len(items)
            return Candidates(query, encoding, items)

    async def _encoded(self, query: Query, call: Call) -> Encoding:
        with call.stage("encode"):
            return await self._encode(query.text)

    async def _dense(self, encoding: Encoding, question: Question, call: Call, mode: Mode) -> _Leg:
        if mode == "sparse" or not self._settings.dense_limit:
            return _Leg(())
        limit = max(self._settings.dense_limit, question.passages or 0)
        with call.stage("dense") as span:
            try:
                hits = await self._store.search_dense(encoding.dense, question.scope, limit)
            except TryAgain as error:
                return _Leg((), error)
            span.detail["hits"] = len(hits)
            return _Leg(hits)

    async def _sparse(self, query: Query, question: Question, call: Call, mode: Mode) -> _Leg:
        if mode == "dense" or not self._settings.sparse_limit:
            return _Leg(())
        limit = max(self._settings.sparse_limit, question.passages or 0)
        with call.stage("sparse") as span:
            try:
                hits = await self._store.search_sparse(query.text, question.scope, limit)
            except TryAgain as error:
                return _Leg((), error)
            span.detail["hits"] = len(hits)
            return _Leg(hits)

    def _record_failures(self, dense: _Leg, sparse: _Leg, call: Call) -> None:
        if dense.failure and (sparse.failure or not sparse.hits):
            raise dense.failure
        if dense.failure:
            call.degrade("dense_search")
        if sparse.failure:
            call.degrade("sparse_search")
