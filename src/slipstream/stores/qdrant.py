"""The store for more than one machine: a Qdrant server or cluster over gRPC."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from qdrant_client import grpc, models

from slipstream.errors import ConfigError, InvalidRequest, Unavailable
from slipstream.runtime.workers import Worker
from slipstream.settings import IndexSettings, QdrantSettings
from slipstream.stores import bm25
from slipstream.stores.base import StoreInfo
from slipstream.stores.index import IndexSpec, SearchSpec
from slipstream.stores.qdrant_collection import (
    KINDS,
    OFFERS,
    check_version,
    ensure_collection,
    index_of,
    kept_search,
    search_metadata,
    spending,
    vector_diff,
)
from slipstream.stores.qdrant_connection import NotApplied, QdrantConnection
from slipstream.stores.qdrant_filters import named_in_scope, scope_filter, tenant_filter
from slipstream.stores.qdrant_points import (
    DENSE,
    DENSE_AND_TOKENS,
    EVERYTHING,
    NO_PAYLOAD,
    PASSAGE_ONLY,
    SPANS_ONLY,
    TERMS,
    TOKENS,
    TOKENS_ONLY,
    dense_query,
    points_of,
    stored_passage,
    stored_tokens,
    stored_whole,
    term_query,
    token_query,
)
from slipstream.stores.writing import check_writable, is_passage_id
from slipstream.types import (
    And,
    Filter,
    Hit,
    IndexedPassage,
    Match,
    Matrix,
    Not,
    Passage,
    Scope,
    TokenVectors,
    Vector,
)

T = TypeVar("T")

log = logging.getLogger(__name__)

_WRITE_PASSAGES = 64
_WRITE_ROWS = 4_096
"""Token vectors in one request: 6 MiB of 384 dimensions, a fifth of what a server takes by default."""
_EXPORT_PASSAGES = 32
"""Passages in one page of an export, token vectors included: 10 MiB."""
_STATUS_EVERY_S = 1.0
_GREEN_TWICE = 2
"""A change of configuration shows in the status a moment after it is acknowledged."""


class QdrantStore:
    """Passages in a Qdrant collection; several servers may share it.

    Writes are in the server's log and applied when they return (`wait`). Every call is bounded and, since each may
    run twice without harm, tried again; a server that is away gives Unavailable, and is used again once it is back.
    """

    def __init__(
        self,
        settings: QdrantSettings,
        *,
        dimensions: int,
        encoder: str = "",
        index: IndexSettings | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.dimensions = dimensions
        self._settings = settings
        self._encoder = encoder
        self._insisted = index or IndexSettings()
        self._index = IndexSpec().wanted(self._insisted)
        self._search = SearchSpec().wanted(self._insisted)
        self._connection = QdrantConnection(settings, sleep=sleep)
        self._name = settings.collection
        self._read_s = settings.timeout_s

    # --- life ---

    async def open(self) -> None:
        """Makes the collection when there is none, and has the index rebuilt when the settings insist on another.

        Raises Unavailable when the server cannot be reached, ConfigError when it is too old or refuses the key or has
        no such index, DataError when the collection was made for other settings.
        """
        if self._index.kind not in KINDS:
            raise ConfigError(
                f"Qdrant has no {self._index.kind} index: set index.kind to flat or hnsw, or leave it unset."
            )
        self._worker = Worker("store-wire")
        self._connection.open()
        try:
            await check_version(self._connection)
            info = await ensure_collection(
                self._connection,
                self._settings,
                dimensions=self.dimensions,
                encoder=self._encoder,
                index=self._index,
            )
            self._index = index_of(info)
            wanted = self._index.wanted(self._insisted)
            if wanted != self._index:
                await self._configure(wanted)  # the server rebuilds in its own time
                self._index = wanted
        except BaseException:
            await self.close()
            raise
        self._search = kept_search(info).wanted(self._insisted)

    async def close(self) -> None:
        if self._connection.is_open:
            await self._connection.close()
            await self._worker.close()

    def healthy(self) -> bool:
        """Whether this side works. A server that is away is no reason to restart this process: calls say so."""
        return self._connection.is_open

    # --- writes ---

    async def upsert(self, passages: Sequence[IndexedPassage]) -> None:
        check_writable(passages, self.dimensions)
        for lot in _lots(passages):
            points = await self._worker.run(points_of, lot)
            request = grpc.UpsertPoints(collection_name=self._name, wait=True, points=points)
            await self._connection.write(partial(self._applied, self._connection.points.Upsert, request))

    async def delete_document(
        self, tenant: str, collection: str, document_id: str, *, except_version: str | None = None
    ) -> None:
        clauses: list[Filter] = [Match("document_id", (document_id,))]
        if except_version is not None:
            clauses.append(Not(Match("version", (except_version,))))
        await self.delete_scope(Scope(tenant, (collection,), And(tuple(clauses))))

    async def delete_scope(self, scope: Scope) -> None:
        selector = grpc.PointsSelector(filter=scope_filter(scope))
        request = grpc.DeletePoints(collection_name=self._name, wait=True, points=selector)
        await self._connection.write(lambda: self._applied(self._connection.points.Delete, request))

    # --- searches ---

    async def search_dense(self, vector: Vector, scope: Scope, limit: int) -> list[Hit]:
        return await self.search_dense_with(vector, scope, limit, self._search)

    async def search_dense_with(self, vector: Vector, scope: Scope, limit: int, search: SearchSpec) -> list[Hit]:
        if limit <= 0:
            return []
        params = grpc.SearchParams(**spending(search, limit, self._index))
        return await self._query(dense_query(vector), DENSE, scope_filter(scope), limit, params)

    async def search_sparse(self, text: str, scope: Scope, limit: int) -> list[Hit]:
        """BM25. Naming the tenant as idf corpus makes the server count live passages of that tenant.

        Each shard counts its own: with several shards idf is that of a tenant's passages in each.
        """
        terms = bm25.question_terms(text)
        if not terms.ids or limit <= 0:
            return []
        params = grpc.SearchParams(idf=grpc.IdfParams(corpus=tenant_filter(scope.tenant)))
        return await self._query(term_query(terms), TERMS, scope_filter(scope), limit, params)

    async def score_tokens(self, tokens: Matrix, passage_ids: Sequence[str], scope: Scope) -> list[Hit]:
        ids = _distinct(passage_ids)
        if not ids:
            return []
        if not len(tokens):
            found = await self._named(ids, scope, NO_PAYLOAD, None)
            return [Hit(passage_id, 0.0) for passage_id in sorted(point.id.uuid for point in found)]
        params = grpc.SearchParams(exact=True)
        return await self._query(token_query(tokens), TOKENS, named_in_scope(ids, scope), len(ids), params)

    async def fetch(self, passage_ids: Sequence[str], scope: Scope) -> list[Passage]:
        ids = _distinct(passage_ids)
        found = await self._named(ids, scope, PASSAGE_ONLY, None)
        by_id = {point.id.uuid: stored_passage(point) for point in found}
        return [by_id[passage_id] for passage_id in ids if passage_id in by_id]

    async def fetch_tokens(self, passage_ids: Sequence[str], scope: Scope) -> dict[str, TokenVectors]:
        found = await self._named(_distinct(passage_ids), scope, SPANS_ONLY, TOKENS_ONLY)
        return {point.id.uuid: stored_tokens(point) for point in found}

    # --- all of it ---

    async def count(self, scope: Scope) -> int:
        request = grpc.CountPoints(collection_name=self._name, filter=scope_filter(scope), exact=True)
        reply: grpc.CountResponse = await self._ask(
            lambda: self._connection.points.Count(request, timeout=self._read_s)
        )
        return int(reply.result.count)

    async def scan(self, scope: Scope, batch: int = 256) -> AsyncIterator[list[Passage]]:
        request = grpc.ScrollPoints(
            collection_name=self._name, filter=scope_filter(scope), limit=batch, with_payload=PASSAGE_ONLY
        )
        async for page in self._pages(request):
            yield [stored_passage(point) for point in page]

    async def export(self, after_id: str | None = None, batch: int = 256) -> AsyncIterator[list[IndexedPassage]]:
        request = grpc.ScrollPoints(
            collection_name=self._name,
            limit=min(batch, _EXPORT_PASSAGES),
            with_payload=EVERYTHING,
            with_vectors=DENSE_AND_TOKENS,
            offset=None if after_id is None else grpc.PointId(uuid=after_id),
        )
        async for page in self._pages(request):
            rest = [point for point in page if point.id.uuid != after_id]  # a page begins *with* its offset
            if rest:
                yield await self._worker.run(_whole, rest)

    async def info(self) -> StoreInfo:
        """`indexed` is the server's own estimate; it does not say how much disk it takes, which is 0 here."""
        info = await self._collection()
        passages = info.points_count or 0
        beside_terms = (info.indexed_vectors_count or 0) - passages  # sparse vectors always count as indexed
        return StoreInfo(passages, min(passages, max(0, beside_terms)), info.segments_count, 0)

    async def optimize(self) -> None:
        """Reports: the server builds and merges by itself. Raises Unavailable when that has failed there."""
        info = await self._collection()
        if info.status is models.CollectionStatus.RED:
            raise Unavailable(f"Qdrant cannot optimize {self._name!r}: {info.optimizer_status}. See its log.")
        log.debug("Qdrant's collection %s is %s.", self._name, info.status.value)

    # --- tuning ---

    @property
    def index(self) -> IndexSpec:
        return self._index

    @property
    def search_spec(self) -> SearchSpec:
        return self._search

    def offers(self) -> Sequence[IndexSpec]:
        return OFFERS

    async def spend(self, search: SearchSpec) -> None:
        """Kept in the collection: other servers take it up when they start."""
        await self._connection.write(
            lambda: self._connection.client.update_collection(
                self._name, metadata=search_metadata(search), timeout=math.ceil(self._settings.write_timeout_s)
            )
        )
        self._search = search.wanted(self._insisted)

    async def reindex(self, index: IndexSpec) -> None:
        """The server rebuilds its segments one by one; each serves with its old graph until its new one is whole."""
        if index.kind not in KINDS:
            raise InvalidRequest(f"Qdrant has no {index.kind} index: take hnsw or flat.")
        await self._configure(index)
        try:
            await self._built()
        except Unavailable:
            await self._configure(self._index)
            raise
        self._index = index_of(await self._collection())

    async def _configure(self, index: IndexSpec) -> None:
        await self._connection.write(
            lambda: self._connection.client.update_collection(
                self._name, vectors_config=vector_diff(index), timeout=math.ceil(self._settings.write_timeout_s)
            )
        )

    async def _built(self) -> None:
        green = 0
        while green < _GREEN_TWICE:
            await self._connection.sleep(_STATUS_EVERY_S)
            status = (await self._collection()).status
            if status is models.CollectionStatus.RED:
                raise Unavailable(f"Qdrant could not build the index of {self._name!r}; its log has the cause.")
            green = green + 1 if status is models.CollectionStatus.GREEN else 0

    # --- the wire ---

    async def _query(
        self, query: grpc.Query, using: str, inside: grpc.Filter, limit: int, params: grpc.SearchParams
    ) -> list[Hit]:
        request = grpc.QueryPoints(
            collection_name=self._name,
            query=query,
            using=using,
            filter=inside,
            params=params,
            limit=limit,
            with_payload=NO_PAYLOAD,
            timeout=math.ceil(self._read_s),
        )
        reply: grpc.QueryResponse = await self._ask(
            lambda: self._connection.points.Query(request, timeout=self._read_s)
        )
        return [Hit(point.id.uuid, point.score) for point in reply.result]

    async def _named(
        self,
        passage_ids: Sequence[str],
        scope: Scope,
        payload: grpc.WithPayloadSelector,
        vectors: grpc.WithVectorsSelector | None,
    ) -> Sequence[grpc.RetrievedPoint]:
        if not passage_ids:
            return []
        request = grpc.ScrollPoints(
            collection_name=self._name,
            filter=named_in_scope(passage_ids, scope),
            limit=len(passage_ids),
            with_payload=payload,
            with_vectors=vectors,
        )
        found: Sequence[grpc.RetrievedPoint] = (await self._scroll(request)).result
        return found

    async def _pages(self, request: grpc.ScrollPoints) -> AsyncIterator[Sequence[grpc.RetrievedPoint]]:
        """Points in ascending order of id, as the server scrolls."""
        while True:
            reply = await self._scroll(request)
            if reply.result:
                yield reply.result
            if not reply.HasField("next_page_offset"):
                return
            request.offset.CopyFrom(reply.next_page_offset)

    async def _scroll(self, request: grpc.ScrollPoints) -> grpc.ScrollResponse:
        reply: grpc.ScrollResponse = await self._ask(
            lambda: self._connection.points.Scroll(request, timeout=self._read_s)
        )
        return reply

    async def _collection(self) -> models.CollectionInfo:
        return await self._ask(lambda: self._connection.client.get_collection(self._name))

    async def _ask(self, operation: Callable[[], Awaitable[T]]) -> T:
        return await self._connection.read(operation)

    async def _applied(
        self,
        method: Callable[..., Awaitable[grpc.PointsOperationResponse]],
        request: grpc.UpsertPoints | grpc.DeletePoints,
    ) -> None:
        reply = await method(request, timeout=self._settings.write_timeout_s)
        if reply.result.status != grpc.UpdateStatus.Completed:
            raise NotApplied(grpc.UpdateStatus.Name(reply.result.status))


def _lots(passages: Sequence[IndexedPassage]) -> Iterator[list[IndexedPassage]]:
    """In requests of bounded size; a passage longer than that goes alone."""
    lot: list[IndexedPassage] = []
    rows = 0
    for indexed in passages:
        more = len(indexed.encoding.tokens)
        if lot and (len(lot) == _WRITE_PASSAGES or rows + more > _WRITE_ROWS):
            yield lot
            lot, rows = [], 0
        lot.append(indexed)
        rows += more
    if lot:
        yield lot


def _whole(points: Sequence[grpc.RetrievedPoint]) -> list[IndexedPassage]:
    return [stored_whole(point) for point in points]


def _distinct(passage_ids: Sequence[str]) -> list[str]:
    """Ids that can exist, once each: the server refuses a whole request for one that is no UUID."""
    return [passage_id for passage_id in dict.fromkeys(passage_ids) if is_passage_id(passage_id)]
