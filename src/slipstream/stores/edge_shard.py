"""One Qdrant Edge shard behind our nouns; runs in the process that holds it (see edge_host).

The engine keeps the interpreter lock during every call, seconds long for `optimize`, so the server never calls it
in its own process.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import qdrant_edge as edge

from slipstream.stores.bm25 import SparseTerms
from slipstream.stores.edge_config import DENSE, TERMS, search_params, shard_config
from slipstream.stores.edge_directory import sync_files
from slipstream.stores.edge_filters import NOTHING, named_in_scope, scope_filter
from slipstream.stores.edge_metadata import MetadataIndexes
from slipstream.stores.edge_payload import TOKENS, passage_of, payload_of, place_of, place_payload
from slipstream.stores.edge_plan import Plans
from slipstream.stores.edge_protocol import EdgeCounts, EdgePoint, Page, StoredPoint, TallyPage, TokenPlace
from slipstream.stores.index import IndexSpec, SearchSpec
from slipstream.stores.term_counts import TermTally, tallied
from slipstream.types import Hit, Passage, Scope, Vector

_SAME_IDF = edge.SearchParams(idf=edge.IdfParams(corpus=NOTHING))
"""Shards of before kept terms for an engine that weighs by its own idf: over an empty corpus that is ln 2 for all."""
_LN_2 = math.log(2)
_TENANT = edge.PayloadSelector.Include(["tenant"])


class EdgeShard:
    """Every method is one engine call or a few. Raises what the engine raises."""

    def __init__(self, shard: edge.EdgeShard, directory: Path, index: IndexSpec, dimensions: int) -> None:
        self._shard = shard
        self._directory = directory
        self._packed = index.quantization != "none"
        self._plans = Plans(self._counted, lambda: self._shard.info().points_count)
        self._metadata = MetadataIndexes(shard)
        self._own_idf = self._weighs_by_own_idf()

    @classmethod
    def create(cls, directory: Path, dimensions: int, index: IndexSpec) -> EdgeShard:
        directory.mkdir(parents=True, exist_ok=True)
        shard = edge.EdgeShard.create(str(directory), shard_config(index, dimensions, new=True))
        for field, params in _FIELDS:
            shard.update(edge.UpdateOperation.create_field_index(field, params))
        shard.flush()
        return cls(shard, directory, index, dimensions)

    @classmethod
    def load(cls, directory: Path, dimensions: int, index: IndexSpec, change: bool = False) -> EdgeShard:
        """`index` is what there is, or with `change` what the next `optimize` builds."""
        if change:
            shard = edge.EdgeShard.load(str(directory), shard_config(index, dimensions, new=False))
        else:
            shard = edge.EdgeShard.load(str(directory))
        return cls(shard, directory, index, dimensions)

    def close(self) -> None:
        self._shard.close()

    def flush(self) -> None:
        self._shard.flush()

    def optimize(self) -> None:
        """Seconds to minutes. Every file of the shard is on disk on return."""
        self._shard.optimize()
        self._shard.flush()
        sync_files(self._directory)

    def upsert(self, points: list[EdgePoint]) -> None:
        self._metadata.cover(points)
        self._shard.update(edge.UpdateOperation.upsert_points([_point(point) for point in points]))
        self._plans.changed(len(points))

    def delete(self, scope: Scope) -> None:
        self._shard.update(edge.UpdateOperation.delete_points_by_filter(scope_filter(scope)))
        self._plans.forget()

    def move(self, places: list[TokenPlace]) -> None:
        """Points passages that still exist to their token vectors' new place."""
        for place in places:
            self._shard.update(edge.UpdateOperation.set_payload([place.passage_id], place_payload(place)))

    def dense(self, vector: Vector, scope: Scope, limit: int, search: SearchSpec) -> list[Hit]:
        query = edge.Query.Nearest(_array(vector), using=DENSE)
        plan = self._plans.of(scope)
        params = search_params(search, limit, plan.way, packed=self._packed)
        return [Hit(str(point.id), float(point.score)) for point in self._queried(query, plan.inside, limit, params)]

    def sparse(self, terms: SparseTerms, scope: Scope, limit: int) -> list[Hit]:
        """Σ over terms of the question's weight times the passage's."""
        query = edge.Query.Nearest(edge.SparseVector(terms.ids, terms.weights), using=TERMS)
        params, unit = (_SAME_IDF, _LN_2) if self._own_idf else (None, 1.0)
        return [Hit(str(p.id), float(p.score) / unit) for p in self._queried(query, scope_filter(scope), limit, params)]

    def tallies(self, passage_ids: list[str]) -> list[TermTally]:
        """Of those of the passages that are stored."""
        return _tallied(self._shard.retrieve(list(passage_ids), with_payload=_TENANT, with_vector=[TERMS]))

    def tally_page(self, scope: Scope | None, first_id: str | None, limit: int) -> TallyPage:
        """Of a scope, or of everything."""
        inside = None if scope is None else scope_filter(scope)
        request = edge.ScrollRequest(
            offset=first_id, limit=limit, filter=inside, with_payload=_TENANT, with_vector=[TERMS]
        )
        records, next_id = self._shard.scroll(request)
        return TallyPage(_tallied(records), None if next_id is None else str(next_id))

    def places(self, passage_ids: list[str], scope: Scope) -> list[TokenPlace]:
        found = self._named(passage_ids, scope, edge.PayloadSelector.Include([TOKENS]))
        return [place_of(str(record.id), record.payload or {}) for record in found]

    def fetch(self, passage_ids: list[str], scope: Scope) -> list[Passage]:
        found = self._named(passage_ids, scope, True)
        return [passage_of(str(record.id), record.payload or {}) for record in found]

    def count(self, scope: Scope) -> int:
        return self._counted(scope_filter(scope))

    def page(self, scope: Scope, first_id: str | None, limit: int) -> Page:
        request = edge.ScrollRequest(offset=first_id, limit=limit, filter=scope_filter(scope), with_payload=True)
        records, next_id = self._shard.scroll(request)
        return Page(
            [passage_of(str(r.id), r.payload or {}) for r in records], None if next_id is None else str(next_id)
        )

    def export(self, first_id: str | None, limit: int) -> Page:
        """By ascending id, of every tenant."""
        request = edge.ScrollRequest(offset=first_id, limit=limit, with_payload=True, with_vector=[DENSE])
        records, next_id = self._shard.scroll(request)
        return Page([_stored(record) for record in records], None if next_id is None else str(next_id))

    def all_places(self, first_id: str | None, limit: int) -> Page:
        selector = edge.PayloadSelector.Include([TOKENS])
        records, next_id = self._shard.scroll(edge.ScrollRequest(offset=first_id, limit=limit, with_payload=selector))
        return Page([place_of(str(r.id), r.payload or {}) for r in records], None if next_id is None else str(next_id))

    def counts(self) -> EdgeCounts:
        info = self._shard.info()
        in_graph = max(0, info.indexed_vectors_count - info.points_count)  # sparse vectors always count as indexed
        return EdgeCounts(info.points_count, in_graph, info.segments_count)

    def _counted(self, inside: edge.Filter) -> int:
        return int(self._shard.count(edge.CountRequest(filter=inside, exact=True)))

    def _queried(
        self, query: edge.Query, inside: edge.Filter, limit: int, params: edge.SearchParams | None
    ) -> list[edge.ScoredPoint]:
        return list(self._shard.query(edge.QueryRequest(limit=limit, query=query, filter=inside, params=params)))

    def _weighs_by_own_idf(self) -> bool:
        """The engine refuses to be told about idf where it does not weigh by it, and says so in no other way."""
        probe = edge.Query.Nearest(edge.SparseVector([0], [1.0]), using=TERMS)
        try:
            self._queried(probe, NOTHING, 1, _SAME_IDF)
        except Exception:  # the engine raises bare Exception for everything
            return False
        return True

    def _named(self, passage_ids: list[str], scope: Scope, payload: Any) -> list[edge.Record]:
        request = edge.ScrollRequest(
            limit=len(passage_ids), filter=named_in_scope(passage_ids, scope), with_payload=payload
        )
        records, _ = self._shard.scroll(request)
        return list(records)


def _tallied(records: Iterable[Any]) -> list[TermTally]:
    return tallied((record.payload["tenant"], record.vector[TERMS].indices) for record in records)


def _point(point: EdgePoint) -> edge.Point:
    terms = edge.SparseVector(point.terms.ids, point.terms.weights)
    return edge.Point(point.passage.id, {DENSE: _array(point.dense), TERMS: terms}, payload_of(point))


def _stored(record: edge.Record) -> StoredPoint:
    passage_id, payload = str(record.id), record.payload or {}
    vectors: Any = record.vector
    dense = np.asarray(vectors[DENSE], np.float32)
    return StoredPoint(passage_of(passage_id, payload), dense, place_of(passage_id, payload))


def _array(vector: Vector) -> Any:
    """The engine takes arrays as they are; its type stub knows only lists."""
    return vector


_LINKED = edge.KeywordIndexParams(enable_hnsw=True)
_WORDS = edge.KeywordIndexParams(enable_hnsw=False)
_INTEGERS = edge.IntegerIndexParams(enable_hnsw=False)
_NUMBERS = edge.FloatIndexParams(enable_hnsw=False)
_FIELDS: tuple[tuple[str, edge.PayloadSchemaParams], ...] = (
    ("tenant", edge.KeywordIndexParams(is_tenant=True, enable_hnsw=True)),
    ("collection", _LINKED),
    *((field, _WORDS) for field in ("document_id", "version", "type", "language", "source", "title")),
    *((field, _INTEGERS) for field in ("page", "position")),
    ("time", _NUMBERS),
)
"""Tenants and collections get edges of their own in the graph; those of one more field cost as much as the graph."""
