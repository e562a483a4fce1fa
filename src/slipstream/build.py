"""Settings → parts: the only file that names concrete adapters, each imported only when it is chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipstream.answer import prompts
from slipstream.answer.assemble import Assembler
from slipstream.answer.confidence import CALIBRATED, UNCALIBRATED
from slipstream.answer.cross_encode import CrossEncode, ScorePairs
from slipstream.answer.expand import Expander
from slipstream.answer.finish import Finisher
from slipstream.answer.generate import Generator
from slipstream.answer.pipeline import Pipeline
from slipstream.answer.plan import Planner
from slipstream.answer.rank_texts import TextRanker
from slipstream.answer.rerank import NO_FLOOR, Floor, Reranker
from slipstream.answer.retrieve import Retriever
from slipstream.answer.rewrite import Rewriter
from slipstream.answer.route import Router
from slipstream.answer.shape import Shaper
from slipstream.answer.wording import Wording
from slipstream.cache.answers import AnswerCache
from slipstream.cache.entries import Entries
from slipstream.cache.epochs import Epochs
from slipstream.cache.keys import digest
from slipstream.cache.thresholds import calibrated
from slipstream.cache.verify import Thresholds, Verifier
from slipstream.errors import ConfigError
from slipstream.ingest.ledger import Ledger
from slipstream.ingest.run import Ingestor
from slipstream.models.base import CrossEncoder, Encoder, LanguageModel
from slipstream.models.provision import Provisioner
from slipstream.observe.cache_metrics import CacheMetrics
from slipstream.observe.metrics import Metrics
from slipstream.observe.tracing import tracer_from_environment
from slipstream.runtime.admission import Admission
from slipstream.runtime.batcher import Batcher, BatchObserver
from slipstream.runtime.deadline import Ladder, StageCosts
from slipstream.runtime.workers import Worker
from slipstream.service import Parts, Slipstream
from slipstream.settings import RemoteEngineSettings, Settings, remote_engine
from slipstream.stores.base import Store
from slipstream.types import Encoding, Language, Tier

_OWN_STORES = frozenset({"qdrant-edge", "memory"})
"""Stores that this process alone writes to."""
_MAX_BATCH_QUERIES = 64
_MAX_QUERIES_WAITING = 1_024
_MAX_BATCH_PAIRS = 64
CASCADE_CANDIDATES = 100
_CALIBRATED_FLOORS = {"multilingual-e5-small": Floor(within=0.77, across=0.735)}
"""On XQuAD's passages: every question about them scores above (lowest .79; .73 for 95 % of the Chinese ones on the
English passages); of questions about something else 90 % score below."""


def build(settings: Settings, provisioner: Provisioner | None = None) -> Slipstream:
    """Puts the program together; models that are missing are fetched now (blocking), nothing is loaded yet.

    Raises ConfigError for a model that cannot be had as configured, Unavailable when it cannot be fetched.
    """
    provisioner = provisioner or Provisioner(settings.models.cache_dir, offline=settings.models.offline)
    settings = with_cascade(settings)
    encoder = build_encoder(settings, provisioner)
    store = build_store(settings, encoder)
    metrics = Metrics()
    models = _models(settings, provisioner, metrics)
    worker = Worker("text", threads=2)
    cross = build_cross_encoder(settings, provisioner, metrics)

    batcher = query_batcher(encoder, settings, metrics)
    epochs = Epochs(exclusive=settings.data.store in _OWN_STORES)
    generate = Generator(models, metrics.token_gap)
    pipeline = Pipeline(
        Planner(Ladder(StageCosts()), settings.retrieval, tuple(models), cross is not None),
        Rewriter(),
        Expander(
            Retriever(store, batcher.submit, settings.retrieval),
            batcher.submit_many,
            Wording(models, settings.retrieval.wording_ms / 1000),
            settings.retrieval,
            CALIBRATED.get(encoder.name, UNCALIBRATED),
        ),
        Reranker(store, settings.retrieval, worker, _floor(settings, encoder), cross.encode if cross else None),
        Shaper(store, settings.retrieval),
        Router(models, settings.answer),
        Assembler(models, settings.answer, worker),
        generate,
        Finisher(generate.model_name, worker),
    )
    parts = Parts(
        settings=settings,
        encoder=encoder,
        store=store,
        ingestor=Ingestor(
            store,
            encoder,
            Ledger(settings.data.dir / "ledger.sqlite"),
            settings.ingest,
            settings.tenants,
            on_change=epochs.changed,
        ),
        models=models,
        pipeline=pipeline,
        batcher=batcher,
        text_ranker=TextRanker(
            encoder, batcher.submit, worker, cross.model.name if cross else None, cross.score_pairs if cross else None
        ),
        cross_encoder=cross.model if cross else None,
        pair_batcher=cross.batcher if cross else None,
        admission=Admission(
            settings.admission.max_tokens, settings.admission.max_queued_tokens, settings.admission.tenant_share
        ),
        cache=build_cache(settings, encoder, models, epochs, metrics),
        worker=worker,
        metrics=metrics,
        tracer=tracer_from_environment(),
    )
    return Slipstream(parts)


def build_cache(
    settings: Settings, encoder: Encoder, models: Mapping[Tier, LanguageModel], epochs: Epochs, metrics: Metrics
) -> AnswerCache | None:
    if settings.cache.mode == "off":
        return None
    names = sorted((tier, model.name) for tier, model in models.items())
    wording = (prompts.SYSTEM, prompts.QUESTION, prompts.NOT_FOUND, prompts.QUOTED)
    house = digest(repr((names, encoder.name, wording, settings.answer, settings.retrieval)))
    own = settings.cache.thresholds
    thresholds: Mapping[Language, Thresholds] = calibrated(encoder.name)
    if own is not None:
        thresholds = {language: Thresholds(*pair) for language, pair in own.items()}
    return AnswerCache(
        build_entries(settings, encoder),
        Verifier(thresholds),
        epochs,
        settings.cache,
        CacheMetrics(metrics.registry),
        house,
    )


def build_entries(settings: Settings, encoder: Encoder) -> Entries:
    own = settings.cache
    if own.backend == "redis":
        from slipstream.cache.redis_entries import RedisEntries

        prefix = f"slipstream:cache:{digest(encoder.name)[:8]}:"
        return RedisEntries(own.redis_url, dimensions=encoder.dimensions, max_age_s=own.max_age_s, prefix=prefix)
    from slipstream.cache.sqlite_entries import SqliteEntries

    path = Path(settings.data.dir) / f"answers-{digest(encoder.name)[:8]}.sqlite"
    return SqliteEntries(path, dimensions=encoder.dimensions, max_bytes=own.max_mib << 20, max_age_s=own.max_age_s)


def build_encoder(settings: Settings, provisioner: Provisioner) -> Encoder:
    if settings.models.encoder == "fake":
        from slipstream.models.fake_encoder import FakeEncoder

        return FakeEncoder()
    from slipstream.models.encoder import OpenVinoEncoder

    return OpenVinoEncoder(provisioner.ensure(settings.models.encoder, "encoder").path, settings.encoder)


def query_batcher(encoder: Encoder, settings: Settings, metrics: BatchObserver | None = None) -> Batcher[str, Encoding]:
    """What gathers the queries of all users."""

    async def encode(texts: Sequence[str]) -> Sequence[Encoding]:
        return await encoder.encode(texts, "query")

    return Batcher(
        "query-encoding",
        encode,
        cost=lambda text: min(len(text) // 2 + 4, encoder.max_tokens),
        max_cost=settings.encoder.max_batch_tokens,
        max_items=_MAX_BATCH_QUERIES,
        max_waiting=_MAX_QUERIES_WAITING,
        metrics=metrics,
    )


@dataclass(frozen=True, slots=True)
class CrossEncoding:
    """A cross-encoder with what stands before it."""

    model: CrossEncoder
    encode: CrossEncode
    score_pairs: ScorePairs
    batcher: Batcher[Any, float] | None = None
    """Of a local one. A remote one does its own batching."""


def build_cross_encoder(
    settings: Settings, provisioner: Provisioner, metrics: BatchObserver | None = None
) -> CrossEncoding | None:
    name, own = settings.models.cross_encoder, settings.cross_encoder
    if name is None:
        return None
    batcher: Batcher[Any, float] | None = None
    model: CrossEncoder
    if name == "fake":
        from slipstream.models.fake_cross_encoder import FakeCrossEncoder

        model = FakeCrossEncoder()
        score: ScorePairs = model.score
    elif settings.models.local_cross_encoder is None:
        from slipstream.models.rerank_http import HttpCrossEncoder

        model = HttpCrossEncoder(name, own)
        score = model.score
    else:
        from slipstream.models.cross_encoder import OpenVinoCrossEncoder

        local = OpenVinoCrossEncoder(provisioner.ensure(name, "cross_encoder").path, own)
        gathered = Batcher(
            "cross-encoder",
            local.forward,
            cost=lambda pair: len(pair.ids),
            max_cost=own.max_batch_tokens,
            max_items=_MAX_BATCH_PAIRS,
            max_waiting=own.max_waiting,
            metrics=metrics,
        )

        async def score(pairs: Sequence[tuple[str, str]]) -> Sequence[float]:
            return await gathered.submit_many(await local.tokenize(pairs))

        model, batcher = local, gathered
    encode = CrossEncode(model.name, score, own.timeout_ms / 1000, own.cached_scores)
    return CrossEncoding(model, encode, score, batcher)


def with_cascade(settings: Settings) -> Settings:
    """With a cross-encoder behind it, late interaction has more to narrow, unless the settings say how many."""
    if settings.models.cross_encoder is None or "rerank_limit" in settings.retrieval.model_fields_set:
        return settings
    retrieval = settings.retrieval.model_copy(update={"rerank_limit": CASCADE_CANDIDATES})
    return settings.model_copy(update={"retrieval": retrieval})


def build_store(settings: Settings, encoder: Encoder) -> Store:
    if settings.data.store == "memory":
        from slipstream.stores.memory import MemoryStore

        return MemoryStore(dimensions=encoder.dimensions)
    if settings.data.store == "qdrant":
        return _qdrant(settings, encoder)
    if settings.data.store == "milvus":
        return _milvus(settings, encoder)
    from slipstream.stores.qdrant_edge import QdrantEdgeStore

    return QdrantEdgeStore(
        Path(settings.data.dir) / "passages",
        dimensions=encoder.dimensions,
        encoder=encoder.name,
        index=settings.index,
    )


def _qdrant(settings: Settings, encoder: Encoder) -> Store:
    try:
        from slipstream.stores.qdrant import QdrantStore
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"data.store is qdrant, and the package {error.name} is missing: pip install 'slipstream-rag[qdrant]'."
        ) from None
    return QdrantStore(settings.qdrant, dimensions=encoder.dimensions, encoder=encoder.name, index=settings.index)


def _milvus(settings: Settings, encoder: Encoder) -> Store:
    try:
        from slipstream.stores.milvus import MilvusStore
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"data.store is milvus, and the package {error.name} is missing: pip install 'slipstream-rag[milvus]'."
        ) from None
    hybrid = settings.retrieval.sparse_limit > 0
    return MilvusStore(
        settings.milvus,
        dimensions=encoder.dimensions,
        encoder=encoder.name,
        hybrid=hybrid,
        index=settings.index,
    )


def _floor(settings: Settings, encoder: Encoder) -> Floor:
    if settings.retrieval.min_score is not None:
        return Floor(settings.retrieval.min_score, settings.retrieval.min_score)
    return _CALIBRATED_FLOORS.get(encoder.name, NO_FLOOR)


def _models(settings: Settings, provisioner: Provisioner, metrics: Metrics) -> dict[Tier, LanguageModel]:
    named: tuple[tuple[Tier, str | None, RemoteEngineSettings | None], ...] = (
        ("small", settings.models.small, settings.engines.small),
        ("large", settings.models.large, settings.engines.large),
    )
    models: dict[Tier, LanguageModel] = {}
    for tier, name, engine in named:
        engine = engine or remote_engine(name or "")
        if engine is not None:
            models[tier] = _remote_model(tier, engine, metrics)
        elif name is not None:
            models[tier] = _model(name, settings, provisioner)
    return models


def _remote_model(tier: Tier, engine: RemoteEngineSettings, metrics: Metrics) -> LanguageModel:
    from slipstream.models.llm_http import RemoteLanguageModel

    model = RemoteLanguageModel(engine)
    metrics.watch_replicas(tier, model.figures)
    return model


def _model(name: str, settings: Settings, provisioner: Provisioner) -> LanguageModel:
    if name == "fake":
        from slipstream.models.fake_llm import FakeLanguageModel

        return FakeLanguageModel()
    from slipstream.models.llm_local import OpenVinoLanguageModel

    ready = provisioner.ensure(name, "llm")
    return OpenVinoLanguageModel(ready.path, name=ready.name, languages=ready.languages, settings=settings.engine)
