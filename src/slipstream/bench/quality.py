"""Retrieval quality on labelled sets: each leg, their fusion, and late interaction over it, with times."""

from __future__ import annotations

import asyncio
import math
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from slipstream.answer.fuse import reciprocal_rank_fusion
from slipstream.answer.rerank import Reranker
from slipstream.bench.datasets import EvaluationSet, Item
from slipstream.call import Call, Deadline
from slipstream.models.base import Encoder
from slipstream.runtime.workers import Worker
from slipstream.settings import RetrievalSettings
from slipstream.stores.base import Store
from slipstream.text.language import language_of
from slipstream.types import Candidates, Hit, IndexedPassage, Passage, Query, Question, Scope

_TENANT = "quality"
_BATCH = 32


@dataclass(frozen=True, slots=True)
class Row:
    """One way of retrieving, over all questions of a set."""

    way: str
    recall_at_1: float
    recall_at_10: float
    ndcg_at_10: float
    median_ms: float
    """Of this way's own stages, query encoding included where it needs one."""


@dataclass(frozen=True, slots=True)
class QualityReport:
    set: str
    passages: int
    questions: int
    rows: tuple[Row, ...]

    def row(self, way: str) -> Row:
        return next(row for row in self.rows if row.way == way)


@dataclass(frozen=True, slots=True)
class _Ranking:
    ids: Sequence[str]
    ms: float


async def index(data: EvaluationSet, store: Store, encoder: Encoder, progress: Callable[[int], None]) -> list[str]:
    """Encodes and stores the set's passages whole; returns their ids in order. `progress` takes a count done."""
    ids = [str(uuid.uuid5(uuid.NAMESPACE_OID, f"{data.name}/{i}")) for i in range(len(data.passages))]
    for start in range(0, len(ids), _BATCH):
        texts = data.passages[start : start + _BATCH]
        encodings = await encoder.encode(texts, "passage")
        await store.upsert(
            [
                IndexedPassage(_passage(data.name, ids[start + i], start + i, text), encoding)
                for i, (text, encoding) in enumerate(zip(texts, encodings, strict=True))
            ]
        )
        progress(len(texts))
    await store.optimize()
    return ids


async def measure(
    data: EvaluationSet, ids: Sequence[str], store: Store, encoder: Encoder, settings: RetrievalSettings
) -> QualityReport:
    """Asks every question of the set, one at a time."""
    rankings: dict[str, list[_Ranking]] = {"dense": [], "sparse": [], "rrf": [], "rrf + late interaction": []}
    scope = Scope(_TENANT, (data.name,))
    worker = Worker("quality")
    reranker = Reranker(store, settings, worker)
    try:
        for item in data.items:
            for way, ranking in (await _ask(item.question, scope, store, encoder, reranker, settings)).items():
                rankings[way].append(ranking)
    finally:
        await worker.close()
    rows = tuple(_row(way, ranked, data.items, ids) for way, ranked in rankings.items())
    return QualityReport(data.name, len(ids), len(data.items), rows)


async def _ask(
    question: str,
    scope: Scope,
    store: Store,
    encoder: Encoder,
    reranker: Reranker,
    settings: RetrievalSettings,
) -> dict[str, _Ranking]:
    began = time.perf_counter()
    [encoding] = await encoder.encode([question], "query")
    encoded = time.perf_counter()
    dense = await store.search_dense(encoding.dense, scope, settings.dense_limit)
    searched = time.perf_counter()
    sparse = await store.search_sparse(question, scope, settings.sparse_limit)
    matched = time.perf_counter()
    await asyncio.gather(
        store.search_dense(encoding.dense, scope, settings.dense_limit),
        store.search_sparse(question, scope, settings.sparse_limit),
    )
    fused = reciprocal_rank_fusion(dense, sparse, k=settings.rrf_k)
    fused_ids = [candidate.passage_id for candidate in fused]
    both = time.perf_counter()
    query = Query(question, language_of(question))
    found = Candidates(query, encoding, fused)
    late = await reranker.order(found, Question(question, scope), Call(_TENANT, Deadline.after(None)))
    done = time.perf_counter()
    return {
        "dense": _Ranking(_ids(dense), 1e3 * (searched - began)),
        "sparse": _Ranking(_ids(sparse), 1e3 * (matched - searched)),
        "rrf": _Ranking(fused_ids, 1e3 * (encoded - began + both - matched)),
        "rrf + late interaction": _Ranking(_ids(late.hits), 1e3 * (encoded - began + done - matched)),
    }


def _ids(hits: Sequence[Hit]) -> list[str]:
    return [hit.passage_id for hit in hits]


def _row(way: str, rankings: Sequence[_Ranking], items: Sequence[Item], ids: Sequence[str]) -> Row:
    relevant = [{ids[i] for i in item.relevant} for item in items]
    pairs = list(zip(rankings, relevant, strict=True))
    count = len(pairs)
    return Row(
        way,
        sum(bool(set(r.ids[:1]) & gold) for r, gold in pairs) / count,
        sum(len(set(r.ids[:10]) & gold) / len(gold) for r, gold in pairs) / count,
        sum(ndcg(r.ids, gold) for r, gold in pairs) / count,
        median(r.ms for r in rankings),
    )


def ndcg(ranked: Sequence[str], relevant: set[str], at: int = 10) -> float:
    """Binary nDCG. Source: Järvelin & Kekäläinen, TOIS 2002, with log2(rank + 1) discounts, as trec_eval."""
    gain = sum(1 / math.log2(rank + 1) for rank, item in enumerate(ranked[:at], 1) if item in relevant)
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(at, len(relevant)) + 1))
    return gain / ideal if ideal else 0.0


def _passage(collection: str, passage_id: str, position: int, text: str) -> Passage:
    return Passage(
        id=passage_id,
        tenant=_TENANT,
        collection=collection,
        document_id=str(position),
        version="1",
        position=0,
        text=text,
        start=0,
        end=len(text),
        language=language_of(text),
    )
