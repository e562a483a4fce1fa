"""The exact reference store, in memory: brute force, for tests and for measuring the others against."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from slipstream.stores import bm25
from slipstream.stores.base import StoreInfo
from slipstream.stores.fields import accepts
from slipstream.stores.writing import check_writable
from slipstream.types import Hit, IndexedPassage, Matrix, Passage, Scope, TokenVectors, Vector


@dataclass(frozen=True, slots=True)
class _Stored:
    indexed: IndexedPassage
    terms: dict[int, float]


class MemoryStore:
    """Cosine, BM25 (slipstream.stores.bm25) and MaxSim without approximation. Nothing outlives the process."""

    def __init__(self, *, dimensions: int) -> None:
        self.dimensions = dimensions
        self._stored: dict[str, _Stored] = {}

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def upsert(self, passages: Sequence[IndexedPassage]) -> None:
        check_writable(passages, self.dimensions)
        for indexed in passages:
            terms = bm25.passage_terms(indexed.passage.text)
            self._stored[indexed.passage.id] = _Stored(indexed, dict(zip(terms.ids, terms.weights, strict=True)))

    async def delete_document(
        self, tenant: str, collection: str, document_id: str, *, except_version: str | None = None
    ) -> None:
        for passage in self._inside(Scope(tenant, (collection,))):
            if passage.document_id == document_id and passage.version != except_version:
                del self._stored[passage.id]

    async def delete_scope(self, scope: Scope) -> None:
        for passage in self._inside(scope):
            del self._stored[passage.id]

    async def search_dense(self, vector: Vector, scope: Scope, limit: int) -> list[Hit]:
        query = vector / max(float(np.linalg.norm(vector)), 1e-12)
        return _best(
            (Hit(p.id, float(query @ self._stored[p.id].indexed.encoding.dense)) for p in self._inside(scope)), limit
        )

    async def search_sparse(self, text: str, scope: Scope, limit: int) -> list[Hit]:
        tenant = [stored for stored in self._stored.values() if stored.indexed.passage.tenant == scope.tenant]
        query = bm25.question_terms(text)
        containing = {term: sum(term in stored.terms for stored in tenant) for term in query.ids}
        scores: dict[str, float] = defaultdict(float)
        for passage in self._inside(scope):
            for term, asked in zip(query.ids, query.weights, strict=True):
                weight = self._stored[passage.id].terms.get(term)
                if weight is not None:
                    scores[passage.id] += asked * weight * bm25.idf(containing[term], len(tenant))
        return _best((Hit(passage_id, score) for passage_id, score in scores.items()), limit)

    async def score_tokens(self, tokens: Matrix, passage_ids: Sequence[str], scope: Scope) -> list[Hit]:
        vectors = await self.fetch_tokens(passage_ids, scope)
        return _best((Hit(i, max_sim(tokens, v.tokens)) for i, v in vectors.items()), len(vectors))

    async def fetch(self, passage_ids: Sequence[str], scope: Scope) -> list[Passage]:
        found = (self._stored.get(passage_id) for passage_id in dict.fromkeys(passage_ids))
        return [s.indexed.passage for s in found if s is not None and accepts(scope, s.indexed.passage)]

    async def fetch_tokens(self, passage_ids: Sequence[str], scope: Scope) -> dict[str, TokenVectors]:
        found = [self._stored[passage.id].indexed for passage in await self.fetch(passage_ids, scope)]
        return {s.passage.id: TokenVectors(s.encoding.tokens, s.encoding.offsets) for s in found}

    async def count(self, scope: Scope) -> int:
        return len(self._inside(scope))

    async def scan(self, scope: Scope, batch: int = 256) -> AsyncIterator[list[Passage]]:
        inside = self._inside(scope)
        for start in range(0, len(inside), batch):
            yield inside[start : start + batch]

    async def export(self, after_id: str | None = None, batch: int = 256) -> AsyncIterator[list[IndexedPassage]]:
        rest = sorted(passage_id for passage_id in self._stored if after_id is None or passage_id > after_id)
        for start in range(0, len(rest), batch):
            found = [self._stored[i].indexed for i in rest[start : start + batch] if i in self._stored]
            if found:
                yield found

    async def optimize(self) -> None: ...

    def needs_optimize(self) -> bool:
        return False

    async def info(self) -> StoreInfo:
        return StoreInfo(passages=len(self._stored), indexed=0, segments=1, bytes_on_disk=0)

    def healthy(self) -> bool:
        return True

    def _inside(self, scope: Scope) -> list[Passage]:
        return [s.indexed.passage for s in self._stored.values() if accepts(scope, s.indexed.passage)]


def max_sim(query_tokens: Matrix, passage_tokens: Matrix) -> float:
    """Σ over query tokens (q, d) of the best dot product among passage tokens (n, d); 0 when either has none.

    Source: Khattab & Zaharia, ColBERT, SIGIR 2020, eq. 3.
    """
    if not len(query_tokens) or not len(passage_tokens):
        return 0.0
    return float((query_tokens @ passage_tokens.T).max(axis=1).sum())


def _best(hits: Iterable[Hit], limit: int) -> list[Hit]:
    return sorted(hits, key=lambda hit: (-hit.score, hit.passage_id))[:limit]
