"""The embedded store: Qdrant Edge for vectors, terms and payload, token vectors in files beside it."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from slipstream.call import Deadline
from slipstream.errors import DataError, InvalidRequest, SlipstreamError, Unavailable
from slipstream.runtime.admission import Admission
from slipstream.runtime.uninterrupted import uninterrupted
from slipstream.runtime.workers import Worker
from slipstream.settings import IndexSettings
from slipstream.stores import bm25
from slipstream.stores.base import StoreInfo
from slipstream.stores.bm25 import SparseTerms
from slipstream.stores.edge_client import EdgeClient
from slipstream.stores.edge_directory import EdgeDirectory, on_disk
from slipstream.stores.edge_protocol import EdgeCounts, EdgePoint, Page, StoredPoint, TallyPage, TokenPlace
from slipstream.stores.edge_rebuild import Rebuild
from slipstream.stores.edge_terms import EdgeTerms, whole_tenant
from slipstream.stores.index import IndexSpec, SearchSpec
from slipstream.stores.term_counts import TermTally
from slipstream.stores.token_files import TokenFiles
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

T = TypeVar("T")

log = logging.getLogger(__name__)

_WRITE_BATCH = 64
"""Passages a write hands to the shard at once: searches wait behind it for a few milliseconds."""
_TALLY_PAGE = 256
_SEARCHES_AT_ONCE = 2
"""One in the engine, which runs them one by one, and one on its way there."""
_SEARCHES_WAITING = 10_000
_WHENEVER = Deadline.after(None)
OFFERS = (
    IndexSpec(kind="flat"),
    IndexSpec(m=8, ef_construct=64),
    IndexSpec(),
    IndexSpec(quantization="scalar"),
    IndexSpec(quantization="turbo"),
    IndexSpec(quantization="binary"),
    IndexSpec(m=32, ef_construct=256),
    IndexSpec(quantization="product"),
)
REBUILD_AFTER = 5_000
"""Changes that are worth a rebuild in a small collection; in a larger one a tenth of it."""
_RESERVE_BYTES = 192 << 20
"""The engine maps its files with holes: a disk that fills up under them kills the process that holds them."""


def free_bytes(path: Path) -> int:
    return shutil.disk_usage(path).free


class QdrantEdgeStore:
    """Passages on this machine, held by one server.

    The shard lives in a process of its own, because the engine keeps the interpreter lock while it works. Writes
    are on disk (fsync) when they return. `optimize` rebuilds a copy in a second process and then changes over.
    """

    def __init__(
        self,
        directory: Path,
        *,
        dimensions: int,
        encoder: str = "",
        index: IndexSettings | None = None,
        rebuild_after: int = REBUILD_AFTER,
        free: Callable[[Path], int] = free_bytes,
    ) -> None:
        self.dimensions = dimensions
        self._directory = EdgeDirectory(directory, dimensions=dimensions, encoder=encoder)
        self._insisted = index or IndexSettings()
        self._search = SearchSpec()
        self._turns = Admission(_SEARCHES_AT_ONCE, _SEARCHES_WAITING, 1 / _SEARCHES_AT_ONCE)
        self._tokens = TokenFiles(self._directory.tokens, dimensions)
        self._rebuild_after = rebuild_after
        self._free = free
        self._client: EdgeClient | None = None
        self._rebuild: Rebuild | None = None
        self._writing = asyncio.Lock()
        self._optimizing = asyncio.Lock()
        self._changes = 0
        self._passages = 0

    async def open(self) -> None:
        self._writer = Worker("store-write")
        self._searcher = Worker("store-search", threads=2)
        self._terms = EdgeTerms(self._directory.path / "terms.npz", self._writer)
        await self._writer.run(self._directory.acquire)
        try:
            self._client = await EdgeClient.start()
            if self._directory.current:
                await self._client.call("load", self._directory.current, self.dimensions, self.index)
            else:
                shard, index = self._directory.new_shard(), self._wanted_index()
                await self._client.call("create", shard, self.dimensions, index)
                await self._writer.run(self._directory.commit, shard, index)
            await self._writer.run(self._tokens.open)
            counts: EdgeCounts = await self._client.call("counts")
            await self._terms.open(self._client, counts.points)
        except BaseException:
            await self._abandon()
            raise
        self._passages = counts.points
        self._search = self._directory.manifest.search.wanted(self._insisted)
        graph = self.index.kind == "hnsw" and counts.points > REBUILD_AFTER
        self._changes = counts.points - counts.indexed if graph else 0

    async def close(self) -> None:
        async with self._optimizing, self._writing:
            if self._client is None:
                return
            if self._client.alive:
                await self._client.call("flush")
                await self._terms.close()
            await self._writer.run(self._tokens.close)
            await self._abandon()

    async def upsert(self, passages: Sequence[IndexedPassage]) -> None:
        check_writable(passages, self.dimensions)
        for start in range(0, len(passages), _WRITE_BATCH):
            async with self._writing:
                await uninterrupted(self._upsert(passages[start : start + _WRITE_BATCH]))

    async def delete_document(
        self, tenant: str, collection: str, document_id: str, *, except_version: str | None = None
    ) -> None:
        clauses: list[Filter] = [Match("document_id", (document_id,))]
        if except_version is not None:
            clauses.append(Not(Match("version", (except_version,))))
        await self.delete_scope(Scope(tenant, (collection,), And(tuple(clauses))))

    async def delete_scope(self, scope: Scope) -> None:
        async with self._writing:
            await uninterrupted(self._delete(scope))

    async def search_dense(self, vector: Vector, scope: Scope, limit: int) -> list[Hit]:
        return await self.search_dense_with(vector, scope, limit, self._search)

    async def search_dense_with(self, vector: Vector, scope: Scope, limit: int, search: SearchSpec) -> list[Hit]:
        return await self._searched("dense", vector, scope, limit, search) if limit > 0 else []

    async def search_sparse(self, text: str, scope: Scope, limit: int) -> list[Hit]:
        terms = self._terms.weighted(bm25.question_terms(text), scope.tenant)
        return await self._searched("sparse", terms, scope, limit) if terms.ids and limit > 0 else []

    async def score_tokens(self, tokens: Matrix, passage_ids: Sequence[str], scope: Scope) -> list[Hit]:
        def score(places: list[TokenPlace]) -> list[Hit]:
            hits = [Hit(place.passage_id, self._tokens.max_sim(tokens, place)) for place in places]
            return sorted(hits, key=lambda hit: (-hit.score, hit.passage_id))

        return await self._with_places(score, passage_ids, scope)

    async def fetch(self, passage_ids: Sequence[str], scope: Scope) -> list[Passage]:
        ids = _distinct(passage_ids)
        found: list[Passage] = await self._call("fetch", ids, scope) if ids else []
        by_id = {passage.id: passage for passage in found}
        return [by_id[passage_id] for passage_id in ids if passage_id in by_id]

    async def fetch_tokens(self, passage_ids: Sequence[str], scope: Scope) -> dict[str, TokenVectors]:
        def read(places: list[TokenPlace]) -> dict[str, TokenVectors]:
            return {place.passage_id: self._tokens.read(place) for place in places}

        return await self._with_places(read, passage_ids, scope)

    async def count(self, scope: Scope) -> int:
        count: int = await self._call("count", scope)
        return count

    async def scan(self, scope: Scope, batch: int = 256) -> AsyncIterator[list[Passage]]:
        next_id: str | None = None
        while True:
            page: Page = await self._call("page", scope, next_id, batch)
            if page.points:
                yield [point for point in page.points if isinstance(point, Passage)]
            if page.next_id is None:
                return
            next_id = page.next_id

    async def export(self, after_id: str | None = None, batch: int = 256) -> AsyncIterator[list[IndexedPassage]]:
        next_id = after_id
        while True:
            whole, following = await self._export_page(next_id, batch)
            rest = [indexed for indexed in whole if indexed.passage.id != after_id]  # a page begins *with* its offset
            if rest:
                yield rest
            if following is None:
                return
            next_id = following

    # --- the index ---

    @property
    def index(self) -> IndexSpec:
        return self._directory.manifest.index

    @property
    def search_spec(self) -> SearchSpec:
        return self._search

    def offers(self) -> Sequence[IndexSpec]:
        return OFFERS

    async def spend(self, search: SearchSpec) -> None:
        await self._writer.run(on_disk, self._directory.spend, search)
        self._search = search.wanted(self._insisted)

    def needs_optimize(self) -> bool:
        """Whether enough has changed since the last rebuild to make one worth its while, or another index is wanted."""
        return self._stale() or self._changes >= max(self._rebuild_after, self._passages // 10)

    async def optimize(self) -> None:
        """Rebuilds graph and term index in a process of low priority; searches and writes go on meanwhile.

        Does nothing as long as too little has changed (see `needs_optimize`): a scan is as fast.
        Raises Unavailable when the disk has no room for a copy of the shard and for its new segments beside the
        old ones. Whatever it raises, the current shard goes on and what was copied is gone.
        """
        async with self._optimizing:
            if self.needs_optimize():
                await self._build(self._wanted_index())

    async def reindex(self, index: IndexSpec) -> None:
        if index.kind not in {"hnsw", "flat"}:
            raise InvalidRequest(f"The embedded store has no {index.kind} index: take hnsw or flat.")
        async with self._optimizing:
            await self._build(index)

    async def _build(self, index: IndexSpec) -> None:
        rebuild = Rebuild(self._directory, self._writer, self._open_client(), index)
        changes = 0
        try:
            async with self._writing:
                await self._ensure_room(2 * await self._writer.run(self._directory.shard_bytes))
                await rebuild.begin()
                self._rebuild, changes, self._changes = rebuild, self._changes, 0
            await rebuild.run()
            async with self._writing:
                self._client = await rebuild.finish()
        except BaseException:
            self._changes += changes
            raise
        finally:
            self._rebuild = None
            await rebuild.clean_up()
        self._passages = (await self._call("counts")).points
        await self._compact()

    def _wanted_index(self) -> IndexSpec:
        return self.index.wanted(self._insisted)

    def _stale(self) -> bool:
        return self._passages > 0 and self.index != self._wanted_index()

    async def info(self) -> StoreInfo:
        counts: EdgeCounts = await self._call("counts")
        size = await self._searcher.run(self._directory.bytes_on_disk)
        return StoreInfo(counts.points, counts.indexed, counts.segments, size, self._stale())

    def healthy(self) -> bool:
        return self._client is not None and self._client.alive

    async def _upsert(self, passages: Sequence[IndexedPassage]) -> None:
        await self._ensure_room()
        points = await self._writer.run(on_disk, self._points, passages)
        self._changes += len(points)
        self._passages += len(points)
        old: list[TermTally] = await self._call("tallies", [point.passage.id for point in points])
        await self._write("upsert", points)
        await self._terms.replaced(points, old)
        await self._sync_log()

    async def _delete(self, scope: Scope) -> None:
        self._changes += await self._call("count", scope)
        old = [] if whole_tenant(scope) else await self._tallies(scope)
        await self._write("delete", scope)
        await self._terms.removed(scope, old)
        await self._sync_log()

    async def _tallies(self, scope: Scope) -> list[TermTally]:
        tallies: list[TermTally] = []
        next_id: str | None = None
        while True:
            page: TallyPage = await self._call("tally_page", scope, next_id, _TALLY_PAGE)
            tallies += page.tallies
            next_id = page.next_id
            if next_id is None:
                return tallies

    def _points(self, passages: Sequence[IndexedPassage]) -> list[EdgePoint]:
        """Token vectors first: a place that the shard names must exist."""
        points = [
            EdgePoint(
                indexed.passage,
                indexed.encoding.dense,
                bm25.passage_terms(indexed.passage.text),
                self._tokens.append(indexed.passage.id, indexed.encoding),
            )
            for indexed in passages
        ]
        self._tokens.sync()
        return points

    async def _write(self, operation: str, argument: Any) -> None:
        await self._terms.before_write()
        if self._rebuild is not None:
            self._rebuild.remember(operation, argument)
        try:
            await self._call(operation, argument)
        except SlipstreamError as error:
            if self._rebuild is not None:
                self._rebuild.forget_last()
            if not isinstance(error, DataError):  # of which the engine took nothing
                self._terms.distrust()
            raise

    async def _sync_log(self) -> None:
        await self._writer.run(on_disk, self._directory.sync_log)

    async def _compact(self) -> None:
        """Copies what is still used out of token files that are mostly dead, and removes them."""
        async with self._writing:
            places = await self._all_places()
            dead = await self._writer.run(on_disk, self._tokens.dead_files, places)
            for file, kept in dead.items():
                moved = await self._writer.run(on_disk, self._tokens.copy_all, kept)
                await uninterrupted(self._move(moved))
                await self._writer.run(on_disk, self._tokens.remove, file)

    async def _move(self, places: list[TokenPlace]) -> None:
        await self._write("move", places)
        await self._sync_log()

    async def _all_places(self) -> list[TokenPlace]:
        places: list[TokenPlace] = []
        next_id: str | None = None
        while True:
            page: Page = await self._call("all_places", next_id, 1_000)
            places += [place for place in page.points if isinstance(place, TokenPlace)]
            next_id = page.next_id
            if next_id is None:
                return places

    async def _export_page(self, first_id: str | None, limit: int) -> tuple[list[IndexedPassage], str | None]:
        """Looked up once more if token vectors moved between look-up and reading."""
        for last_try in (False, True):
            page: Page = await self._call("export", first_id, limit)
            points = [point for point in page.points if isinstance(point, StoredPoint)]
            try:
                return await self._searcher.run(self._whole, points), page.next_id
            except FileNotFoundError:
                if last_try:
                    raise Unavailable("Token vectors moved twice while being read; ask again.") from None
        raise AssertionError("unreachable")

    def _whole(self, points: list[StoredPoint]) -> list[IndexedPassage]:
        vectors = [self._tokens.read(point.place) for point in points]
        return [
            IndexedPassage(point.passage, Encoding(point.dense, read.tokens, read.offsets))
            for point, read in zip(points, vectors, strict=True)
        ]

    async def _with_places(self, fn: Callable[[list[TokenPlace]], T], ids: Sequence[str], scope: Scope) -> T:
        """Runs `fn` over the places of token vectors, once more if they moved between look-up and reading."""
        for last_try in (False, True):
            known = _distinct(ids)
            places: list[TokenPlace] = await self._call("places", known, scope) if known else []
            try:
                return await self._searcher.run(fn, places)
            except FileNotFoundError:
                if last_try:
                    raise Unavailable("Token vectors moved twice while being read; ask again.") from None
        raise AssertionError("unreachable")

    async def _ensure_room(self, more_bytes: int = 0) -> None:
        needed = _RESERVE_BYTES + more_bytes
        free = await self._writer.run(on_disk, self._free, self._directory.path)
        if free < needed:
            log.error("%s has %d MiB free and needs %d MiB.", self._directory.path, free >> 20, needed >> 20)
            raise Unavailable(
                f"The disk with the data directory is nearly full. Make at least {needed >> 20} MiB free on it; "
                "searches go on, and nothing acknowledged is lost."
            )

    async def _searched(self, operation: str, what: Vector | SparseTerms, scope: Scope, *arguments: Any) -> list[Hit]:
        """Tenants take turns: one that floods the store waits for itself."""
        async with self._turns.admit(scope.tenant, 1, _WHENEVER):
            hits: list[Hit] = await self._call(operation, what, scope, *arguments)
            return hits

    async def _call(self, operation: str, *arguments: Any) -> Any:
        return await self._open_client().call(operation, *arguments)

    def _open_client(self) -> EdgeClient:
        if self._client is None:
            raise Unavailable("The store is not open.")
        return self._client

    async def _abandon(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()
        await self._writer.run(self._directory.release)
        await self._writer.close()
        await self._searcher.close()


def _distinct(passage_ids: Sequence[str]) -> list[str]:
    """Ids that can exist, once each: the engine refuses a whole request for one that is no UUID."""
    return [passage_id for passage_id in dict.fromkeys(passage_ids) if is_passage_id(passage_id)]
