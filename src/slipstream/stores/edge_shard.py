"""One Qdrant Edge shard behind our nouns; runs in the process that holds it (see edge_host).

The engine keeps the interpreter lock during every call, seconds long for `optimize`, so the server never calls it
in its own process.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import qdrant_edge as edge

from slipstream.stores.bm25 import SparseTerms
from slipstream.stores.edge_directory import sync_files
from slipstream.stores.edge_filters import named_in_scope, scope_filter, tenant_filter
from slipstream.stores.edge_payload import TOKENS, passage_of, payload_of, place_of, place_payload
from slipstream.stores.edge_protocol import EdgeCounts, EdgePoint, Page, TokenPlace
from slipstream.types import Hit, Passage, Scope, Vector

_DENSE = "dense"
_TERMS = "terms"
_SEARCH_EF = 64
_PLAIN_KB = 10_000
"""Below this size of vectors (6,600 of 384 dimensions) a scan is as fast as a graph, and exact."""


class EdgeShard:
    """Every method is one engine call or a few. Raises what the engine raises."""

    def __init__(self, shard: edge.EdgeShard, directory: Path) -> None:
        self._shard = shard
        self._directory = directory

    @classmethod
    def create(cls, directory: Path, dimensions: int) -> EdgeShard:
        directory.mkdir(parents=True, exist_ok=True)
        graph = edge.HnswIndexConfig(m=16, ef_construct=128, full_scan_threshold=_PLAIN_KB)
        config = edge.EdgeConfig(
            vectors={_DENSE: edge.EdgeVectorParams(size=dimensions, distance=edge.Distance.Cosine)},
            sparse_vectors={_TERMS: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)},
            hnsw_config=graph,
            optimizers=edge.EdgeOptimizersConfig(indexing_threshold=_PLAIN_KB),
        )
        shard = edge.EdgeShard.create(str(directory), config)
        shard.update(edge.UpdateOperation.create_field_index("tenant", edge.KeywordIndexParams(is_tenant=True)))
        for field in ("collection", "document_id", "version", "type", "language", "source", "title"):
            shard.update(edge.UpdateOperation.create_field_index(field, edge.PayloadSchemaType.Keyword))
        for field in ("page", "position"):
            shard.update(edge.UpdateOperation.create_field_index(field, edge.PayloadSchemaType.Integer))
        shard.update(edge.UpdateOperation.create_field_index("time", edge.PayloadSchemaType.Float))
        shard.flush()
        return cls(shard, directory)

    @classmethod
    def load(cls, directory: Path) -> EdgeShard:
        return cls(edge.EdgeShard.load(str(directory)), directory)

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
        self._shard.update(edge.UpdateOperation.upsert_points([_point(point) for point in points]))

    def delete(self, scope: Scope) -> None:
        self._shard.update(edge.UpdateOperation.delete_points_by_filter(scope_filter(scope)))

    def move(self, places: list[TokenPlace]) -> None:
        """Points passages that still exist to their token vectors' new place."""
        for place in places:
            self._shard.update(edge.UpdateOperation.set_payload([place.passage_id], place_payload(place)))

    def dense(self, vector: Vector, scope: Scope, limit: int) -> list[Hit]:
        query = edge.Query.Nearest(_array(vector), using=_DENSE)
        return self._hits(query, scope, limit, edge.SearchParams(hnsw_ef=max(_SEARCH_EF, limit)))

    def sparse(self, terms: SparseTerms, scope: Scope, limit: int) -> list[Hit]:
        """BM25. Naming the tenant as idf corpus makes the engine count live passages: its collection-wide
        counts still hold deleted ones, and would let one tenant's documents move another's ranks."""
        query = edge.Query.Nearest(edge.SparseVector(terms.ids, terms.weights), using=_TERMS)
        params = edge.SearchParams(idf=edge.IdfParams(corpus=tenant_filter(scope.tenant)))
        return self._hits(query, scope, limit, params)

    def places(self, passage_ids: list[str], scope: Scope) -> list[TokenPlace]:
        found = self._named(passage_ids, scope, edge.PayloadSelector.Include([TOKENS]))
        return [place_of(str(record.id), record.payload or {}) for record in found]

    def fetch(self, passage_ids: list[str], scope: Scope) -> list[Passage]:
        found = self._named(passage_ids, scope, True)
        return [passage_of(str(record.id), record.payload or {}) for record in found]

    def count(self, scope: Scope) -> int:
        return int(self._shard.count(edge.CountRequest(filter=scope_filter(scope), exact=True)))

    def page(self, scope: Scope, first_id: str | None, limit: int) -> Page:
        request = edge.ScrollRequest(offset=first_id, limit=limit, filter=scope_filter(scope), with_payload=True)
        records, next_id = self._shard.scroll(request)
        return Page(
            [passage_of(str(r.id), r.payload or {}) for r in records], None if next_id is None else str(next_id)
        )

    def all_places(self, first_id: str | None, limit: int) -> Page:
        selector = edge.PayloadSelector.Include([TOKENS])
        records, next_id = self._shard.scroll(edge.ScrollRequest(offset=first_id, limit=limit, with_payload=selector))
        return Page([place_of(str(r.id), r.payload or {}) for r in records], None if next_id is None else str(next_id))

    def counts(self) -> EdgeCounts:
        info = self._shard.info()
        in_graph = max(0, info.indexed_vectors_count - info.points_count)  # sparse vectors always count as indexed
        return EdgeCounts(info.points_count, in_graph, info.segments_count)

    def _hits(self, query: edge.Query, scope: Scope, limit: int, params: edge.SearchParams) -> list[Hit]:
        request = edge.QueryRequest(limit=limit, query=query, filter=scope_filter(scope), params=params)
        return [Hit(str(point.id), float(point.score)) for point in self._shard.query(request)]

    def _named(self, passage_ids: list[str], scope: Scope, payload: Any) -> list[edge.Record]:
        request = edge.ScrollRequest(
            limit=len(passage_ids), filter=named_in_scope(passage_ids, scope), with_payload=payload
        )
        records, _ = self._shard.scroll(request)
        return list(records)


def _point(point: EdgePoint) -> edge.Point:
    terms = edge.SparseVector(point.terms.ids, point.terms.weights)
    return edge.Point(point.passage.id, {_DENSE: _array(point.dense), _TERMS: terms}, payload_of(point))


def _array(vector: Vector) -> Any:
    """The engine takes arrays as they are; its type stub knows only lists."""
    return vector
