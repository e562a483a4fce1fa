"""The store for more than one machine: a Milvus server or cluster."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import numpy as np

from slipstream.call import Clock
from slipstream.errors import InvalidRequest
from slipstream.runtime.workers import Worker
from slipstream.settings import IndexSettings, MilvusSettings
from slipstream.stores import bm25
from slipstream.stores.base import StoreInfo
from slipstream.stores.index import IndexSpec, SearchSpec
from slipstream.stores.milvus_collections import MilvusCollections
from slipstream.stores.milvus_connection import MilvusConnection, MilvusVersion
from slipstream.stores.milvus_exact import ExactSearch
from slipstream.stores.milvus_filters import ALWAYS, listed, named_in_scope, quoted, scope_expression
from slipstream.stores.milvus_idf import TermCounts
from slipstream.stores.milvus_index import check_offered, offered, search_params
from slipstream.stores.milvus_kept import KeptNotes
from slipstream.stores.milvus_reads import MilvusReads, Row
from slipstream.stores.milvus_reindex import MilvusReindex
from slipstream.stores.milvus_rows import PASSAGE_FIELDS, passage_of, row_of
from slipstream.stores.milvus_segments import MilvusSegments
from slipstream.stores.milvus_tokens import TokenPlace, TokenRecord, TokenRecords
from slipstream.stores.milvus_writes import MilvusWrites
from slipstream.stores.writing import check_writable, is_passage_id
from slipstream.types import (
    And,
    Encoding,
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

log = logging.getLogger(__name__)

_WRITE_PASSAGES = 32
"""The client turns rows into messages on the event loop: 32 are some milliseconds."""
_DELETE_PAGE = 1_024
_EXPORT_PASSAGES = 64
_PLACE = ["id", "token_rows"]


class MilvusStore:
    """Passages in Milvus collections; several servers may read them, and one at a time writes.

    Writes are in the server's log when they return. Every call is bounded and tried again where that is safe; a
    server that is away gives Unavailable, and is used again once it is back.
    """

    def __init__(
        self,
        settings: MilvusSettings,
        *,
        dimensions: int,
        encoder: str = "",
        hybrid: bool = True,
        index: IndexSettings = IndexSettings(),  # noqa: B008  frozen
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        clock: Clock = time.monotonic,
    ) -> None:
        self.dimensions = dimensions
        self.settings = settings
        self._hybrid = hybrid
        self._insisted = index
        self._index = IndexSpec().wanted(index)
        self._search = SearchSpec().wanted(index)
        self._clock = clock
        self._version = MilvusVersion(0, 0, "unknown")
        self._connection = MilvusConnection(settings, sleep=sleep)
        self._collections = MilvusCollections(self._connection, settings, dimensions=dimensions)
        self._name = self._collections.passages
        self._reads = MilvusReads(self._connection, settings.consistency)
        self._records = TokenRecords(dimensions)
        self._counts = TermCounts(self._reads, self._name, clock)
        self._segments = MilvusSegments(self._connection, self._collections, self._reads, clock)
        self._writes = MilvusWrites(
            self._connection, self._collections, self._reads, self._records, changed=self._changed
        )
        self._kept = KeptNotes(self._reads, self._writes, self._collections.tokens, encoder)
        self._reindexing = asyncio.Lock()

    # --- life ---

    async def open(self) -> None:
        """Makes the collections when there are none.

        Raises Unavailable when the server cannot be reached, ConfigError when it is too old for what is asked or
        refuses the token, DataError when the collections were made for other settings.
        """
        check_offered(self._index, self.dimensions)
        self._worker = Worker("store-wire", threads=2)
        self._exact = ExactSearch(self._reads, self._name, self._worker, self._clock)
        await self._connection.open()
        try:
            self._version = await self._connection.version()
            self._collections.check_version(self._version, hybrid=self._hybrid)
            self._writes.replaces = self._version.has_sparse
            self._index = await self._collections.ensure(self._version, self._index, hybrid=self._hybrid)
            self._search = (await self._kept.read()).wanted(self._insisted)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        if self._connection.is_open:
            await self._connection.close()
            await self._worker.close()

    async def drop(self) -> None:
        """Removes the collections and everything in them; the store is of no use afterwards."""
        await self._collections.drop_all()

    def healthy(self) -> bool:
        """Whether this side works. A server that is away is no reason to restart this process: calls say so."""
        return self._connection.is_open

    # --- writes ---

    async def upsert(self, passages: Sequence[IndexedPassage]) -> None:
        """A server before 2.4 cannot replace a row at once: one written again is missing for some milliseconds."""
        check_writable(passages, self.dimensions)
        distinct = list({indexed.passage.id: indexed for indexed in passages}.values())
        sparse = self._collections.sparse
        lots = [distinct[n : n + _WRITE_PASSAGES] for n in range(0, len(distinct), _WRITE_PASSAGES)]
        every = [await self._worker.run(_rows, lot, sparse) for lot in lots]  # what does not fit stops all
        for lot, rows in zip(lots, every, strict=True):
            tokens = await self._worker.run(self._token_lots, lot)
            await self._writes.upsert([p.passage.tenant for p in lot], rows, tokens)

    async def delete_document(
        self, tenant: str, collection: str, document_id: str, *, except_version: str | None = None
    ) -> None:
        clauses: list[Filter] = [Match("document_id", (document_id,))]
        if except_version is not None:
            clauses.append(Not(Match("version", (except_version,))))
        await self.delete_scope(Scope(tenant, (collection,), And(tuple(clauses))))

    async def delete_scope(self, scope: Scope) -> None:
        async for rows in self._reads.pages(self._name, scope_expression(scope), _PLACE, limit=_DELETE_PAGE):
            with self._reads.deleting():
                await self._writes.delete(_places(rows))
                await self._reads.settle(self._name, self._collections.tokens)

    # --- searches ---

    async def search_dense(self, vector: Vector, scope: Scope, limit: int) -> list[Hit]:
        return await self.search_dense_with(vector, scope, limit, self._search)

    async def search_dense_with(self, vector: Vector, scope: Scope, limit: int, search: SearchSpec) -> list[Hit]:
        """`exact` reads the scope's vectors and compares them here: for measuring, not for serving."""
        if limit <= 0:
            return []
        query = np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-12), np.float32)
        inside = scope_expression(scope)
        if search.exact:
            return await self._exact.search(query, inside, limit)
        widened = await self._segments.widened(search, self._index, inside)
        params = search_params(self._index, widened, limit)
        return await self._reads.search(self._name, "dense", query, inside, limit, params)

    async def search_sparse(self, text: str, scope: Scope, limit: int) -> list[Hit]:
        """Raises InvalidRequest when the server has no sparse vectors: then only dense search can be asked for."""
        if not self._collections.sparse:
            raise InvalidRequest(
                f"BM25 search needs Milvus 2.4 or later, and this server is {self._version.text}: ask for dense search."
            )
        terms = bm25.question_terms(text)
        if not terms.ids or limit <= 0:
            return []
        inside = scope_expression(scope)  # first: what cannot be named is refused before anything is counted
        query = await self._counts.weighted(terms, scope.tenant)
        if not query:
            return []
        hits = await self._reads.search(self._name, "sparse", query, inside, limit, {"metric_type": "IP", "params": {}})
        return [hit for hit in hits if hit.score > 0]

    async def score_tokens(self, tokens: Matrix, passage_ids: Sequence[str], scope: Scope) -> list[Hit]:
        places = await self._places(passage_ids, scope)
        records = await self._token_records(places, scope.tenant)
        return await self._worker.run(
            lambda: self._records.max_sims(tokens, self._records.whole(places, records), records)
        )

    async def fetch(self, passage_ids: Sequence[str], scope: Scope) -> list[Passage]:
        ids = _distinct(passage_ids)
        if not ids:
            return []
        rows = await self._reads.query(self._name, named_in_scope(ids, scope), PASSAGE_FIELDS)
        by_id = {row["id"]: passage_of(row) for row in rows}
        return [by_id[passage_id] for passage_id in ids if passage_id in by_id]

    async def fetch_tokens(self, passage_ids: Sequence[str], scope: Scope) -> dict[str, TokenVectors]:
        places = await self._places(passage_ids, scope)
        records = await self._token_records(places, scope.tenant)
        return await self._worker.run(self._vectors, places, records)

    # --- all of it ---

    async def count(self, scope: Scope) -> int:
        return await self._reads.count(self._name, scope_expression(scope))

    async def scan(self, scope: Scope, batch: int = 256) -> AsyncIterator[list[Passage]]:
        async for rows in self._reads.pages(self._name, scope_expression(scope), PASSAGE_FIELDS, limit=batch):
            yield [passage_of(row) for row in rows]

    async def export(self, after_id: str | None = None, batch: int = 256) -> AsyncIterator[list[IndexedPassage]]:
        limit = min(batch, _EXPORT_PASSAGES)
        fields = [*PASSAGE_FIELDS, "dense"]
        async for rows in self._reads.pages(self._name, ALWAYS, fields, after=after_id or "", limit=limit):
            places = _places(rows)
            records = await self._token_records(places)
            vectors = await self._worker.run(self._vectors, places, records)
            whole = [_whole(row, vectors[row["id"]]) for row in rows if row["id"] in vectors]
            if whole:
                yield whole

    async def info(self) -> StoreInfo:
        """`indexed` is the server's own count; it does not say how much disk it takes, which is 0 here."""
        return await self._segments.info(stale=self._index != self._index.wanted(self._insisted))

    async def optimize(self) -> None:
        """Builds the index that the settings insist on when it is another; else has the server seal what has grown,
        merge small segments and build their indexes."""
        wanted = self._index.wanted(self._insisted)
        if wanted != self._index:
            await self.reindex(wanted)
        else:
            await self._segments.merge()

    # --- tuning ---

    @property
    def index(self) -> IndexSpec:
        return self._index

    @property
    def search_spec(self) -> SearchSpec:
        return self._search

    def offers(self) -> Sequence[IndexSpec]:
        return offered(self.dimensions)

    async def spend(self, search: SearchSpec) -> None:
        await self._kept.spend(search)
        self._search = search.wanted(self._insisted)

    async def reindex(self, index: IndexSpec) -> None:
        """Fills a second collection and changes over; no other process may write meanwhile."""
        check_offered(index, self.dimensions)
        async with self._reindexing:
            await MilvusReindex(self._connection, self._collections, self._reads, self._writes).run(index)
            self._index = index

    # --- parts ---

    def _changed(self) -> None:
        self._counts.forget()
        self._exact.forget()

    async def _places(self, passage_ids: Sequence[str], scope: Scope) -> list[TokenPlace]:
        ids = _distinct(passage_ids)
        if not ids:
            return []
        rows = await self._reads.query(self._name, named_in_scope(ids, scope), _PLACE)
        found = {place.passage_id: place for place in _places(rows)}
        return [found[passage_id] for passage_id in ids if passage_id in found]

    async def _token_records(self, places: Sequence[TokenPlace], tenant: str | None = None) -> dict[str, str]:
        ids = [record_id for place in places for record_id in self._records.ids(place)]
        if not ids:
            return {}
        inside = f"id in {listed(ids)}"
        if tenant is not None:
            inside = f"tenant == {quoted(tenant)} and {inside}"
        rows = await self._reads.query(self._collections.tokens, inside, ["id", "record"])
        return {row["id"]: row["record"] for row in rows}

    def _token_lots(self, lot: Sequence[IndexedPassage]) -> list[list[TokenRecord]]:
        return [self._records.pack(indexed.passage.id, indexed.encoding) for indexed in lot]

    def _vectors(self, places: Sequence[TokenPlace], records: Mapping[str, str]) -> dict[str, TokenVectors]:
        whole = self._records.whole(places, records)
        return {place.passage_id: self._records.read(place, records) for place in whole}


def _rows(lot: Sequence[IndexedPassage], sparse: bool) -> list[dict[str, Any]]:
    return [row_of(indexed, sparse=sparse) for indexed in lot]


def _whole(row: Row, vectors: TokenVectors) -> IndexedPassage:
    dense = np.array(row["dense"], np.float32)
    return IndexedPassage(passage_of(row), Encoding(dense, vectors.tokens, vectors.offsets))


def _places(rows: Sequence[Row]) -> list[TokenPlace]:
    return [TokenPlace(row["id"], row["token_rows"]) for row in rows]


def _distinct(passage_ids: Sequence[str]) -> list[str]:
    return [passage_id for passage_id in dict.fromkeys(passage_ids) if is_passage_id(passage_id)]
