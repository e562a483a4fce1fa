"""Retrieval quality on labelled sets: each leg, their fusion, and late interaction over it, with times."""

from __future__ import annotations

import asyncio
import math
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from slipstream.answer.cross_encode import CrossEncode
from slipstream.answer.fuse import reciprocal_rank_fusion
from slipstream.answer.rerank import Ranked, Reranker
from slipstream.bench.datasets import EvaluationSet, Item
from slipstream.call import Call, Deadline
from slipstream.models.base import Encoder
from slipstream.runtime.workers import Worker
from slipstream.settings import RetrievalSettings
from slipstream.stores.base import Store
from slipstream.text.language import language_of
from slipstream.types import Candidates, Hit, IndexedPassage, Passage, Query, Question, Scope

TENANT = "quality"
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
class StageTime:
    """What one stage of the path takes for one question, asked alone."""

    stage: str
    median_ms: float


@dataclass(frozen=True, slots=True)
class QualityReport:
    set: str
    passages: int
    questions: int
    rows: tuple[Row, ...]
    stages: tuple[StageTime, ...] = ()

    def row(self, way: str) -> Row:
        return next(row for row in self.rows if row.way == way)


@dataclass(frozen=True, slots=True)
class _Ranking:
    ids: Sequence[str]
    ms: float


@dataclass(frozen=True, slots=True)
class _Asked:
    """One question answered in every way."""

    ways: dict[str, _Ranking]
    stages_ms: dict[str, float]


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
    data: EvaluationSet,
    ids: Sequence[str],
    store: Store,
    encoder: Encoder,
    settings: RetrievalSettings,
    cross: CrossEncode | None = None,
) -> QualityReport:
    """Asks every question of the set, one at a time."""
    worker = Worker("quality")
    ways = _Ways(Scope(TENANT, (data.name,)), store, encoder, settings, Reranker(store, settings, worker), None)
    if cross is not None:
        ways = replace(ways, cascade=Reranker(store, settings, worker, cross_encode=cross))
    try:
        asked = [await ways.ask(item.question) for item in data.items]
    finally:
        await worker.close()
    rows = tuple(_row(way, [one.ways[way] for one in asked], data.items, ids) for way in asked[0].ways)
    stages = tuple(StageTime(s, median(one.stages_ms[s] for one in asked)) for s in asked[0].stages_ms)
    return QualityReport(data.name, len(ids), len(data.items), rows, stages)


@dataclass(frozen=True, slots=True)
class _Ways:
    scope: Scope
    store: Store
    encoder: Encoder
    settings: RetrievalSettings
    late: Reranker
    cascade: Reranker | None
    """With the cross-encoder."""

    async def ask(self, text: str) -> _Asked:
        store, settings = self.store, self.settings
        times = [time.perf_counter()]

        def lap() -> float:
            times.append(time.perf_counter())
            return 1e3 * (times[-1] - times[-2])

        [encoding] = await self.encoder.encode([text], "query")
        ms = {"encode": lap()}
        dense = await store.search_dense(encoding.dense, self.scope, settings.dense_limit)
        ms["dense"] = lap()
        sparse = await store.search_sparse(text, self.scope, settings.sparse_limit)
        ms["bm25"] = lap()
        await asyncio.gather(
            store.search_dense(encoding.dense, self.scope, settings.dense_limit),
            store.search_sparse(text, self.scope, settings.sparse_limit),
        )
        fused = reciprocal_rank_fusion(dense, sparse, k=settings.rrf_k)
        ms["both, fused"] = lap()
        question, call = Question(text, self.scope), Call(TENANT, Deadline.after(None))
        found = Candidates(Query(text, language_of(text)), encoding, fused)
        narrowed = await self.late.narrow(found, question, call)
        ms["late interaction"] = lap()
        hybrid_ms = ms["encode"] + ms["both, fused"]
        ways = {
            "dense": _Ranking(_ids(dense), ms["encode"] + ms["dense"]),
            "sparse": _Ranking(_ids(sparse), ms["bm25"]),
            "rrf": _Ranking([candidate.passage_id for candidate in fused], hybrid_ms),
            "rrf + late interaction": _Ranking(_ids(narrowed), hybrid_ms + ms["late interaction"]),
        }
        if self.cascade is not None:
            few = [one.hit.passage_id for one in narrowed[: settings.cross_encoder_limit]]
            passages = {passage.id: passage for passage in await store.fetch(few, self.scope)}
            decided = await self.cascade.decide(narrowed, passages, question, call, text)
            ms["cross-encoder"] = lap()
            ways["+ cross-encoder"] = _Ranking(_ids(decided), hybrid_ms + ms["late interaction"] + ms["cross-encoder"])
        return _Asked(ways, ms)


def _ids(hits: Sequence[Hit | Ranked]) -> list[str]:
    return [hit.hit.passage_id if isinstance(hit, Ranked) else hit.passage_id for hit in hits]


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
        tenant=TENANT,
        collection=collection,
        document_id=str(position),
        version="1",
        position=0,
        text=text,
        start=0,
        end=len(text),
        language=language_of(text),
    )
