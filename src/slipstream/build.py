"""Settings → parts: the only file that names concrete adapters, each imported only when it is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from slipstream.answer.assemble import Assembler
from slipstream.answer.finish import Finisher
from slipstream.answer.generate import Generator
from slipstream.answer.pipeline import Pipeline
from slipstream.answer.plan import Planner
from slipstream.answer.rerank import NO_FLOOR, Floor, Reranker
from slipstream.answer.retrieve import Retriever
from slipstream.answer.rewrite import Rewriter
from slipstream.answer.route import Router
from slipstream.ingest.ledger import Ledger
from slipstream.ingest.run import Ingestor
from slipstream.models.base import Encoder, LanguageModel
from slipstream.models.provision import Provisioner
from slipstream.observe.metrics import Metrics
from slipstream.observe.tracing import tracer_from_environment
from slipstream.runtime.admission import Admission
from slipstream.runtime.batcher import Batcher
from slipstream.runtime.deadline import Ladder, StageCosts
from slipstream.runtime.workers import Worker
from slipstream.service import Parts, Slipstream
from slipstream.settings import Settings
from slipstream.stores.base import Store
from slipstream.types import Encoding, Tier

_MAX_BATCH_QUERIES = 64
_MAX_QUERIES_WAITING = 1_024
_CALIBRATED_FLOORS = {"multilingual-e5-small": Floor(within=0.77, across=0.735)}
"""On XQuAD's passages: every question about them scores above (lowest .79; .73 for 95 % of the Chinese ones on the
English passages); of questions about something else 90 % score below."""


def build(settings: Settings, provisioner: Provisioner | None = None) -> Slipstream:
    """Puts the program together; models that are missing are fetched now (blocking), nothing is loaded yet.

    Raises ConfigError for a model that cannot be had as configured, Unavailable when it cannot be fetched.
    """
    provisioner = provisioner or Provisioner(settings.models.cache_dir, offline=settings.models.offline)
    encoder = build_encoder(settings, provisioner)
    store = build_store(settings, encoder)
    models = _models(settings, provisioner)
    metrics = Metrics()
    worker = Worker("text", threads=2)

    async def encode_queries(texts: Sequence[str]) -> Sequence[Encoding]:
        return await encoder.encode(texts, "query")

    batcher = Batcher[str, Encoding](
        "query-encoding",
        encode_queries,
        cost=lambda text: min(len(text) // 2 + 4, encoder.max_tokens),
        max_cost=settings.encoder.max_batch_tokens,
        max_items=_MAX_BATCH_QUERIES,
        max_waiting=_MAX_QUERIES_WAITING,
        metrics=metrics,
    )
    generate = Generator(models, metrics.token_gap)
    pipeline = Pipeline(
        Planner(Ladder(StageCosts()), settings.retrieval, tuple(models)),
        Rewriter(),
        Retriever(store, batcher.submit, settings.retrieval),
        Reranker(store, settings.retrieval, worker, _floor(settings, encoder)),
        Router(models, settings.answer),
        Assembler(models, settings.answer, worker),
        generate,
        Finisher(generate.model_name, worker),
    )
    parts = Parts(
        settings=settings,
        encoder=encoder,
        store=store,
        ingestor=Ingestor(store, encoder, Ledger(settings.data.dir / "ledger.sqlite"), settings.ingest),
        models=models,
        pipeline=pipeline,
        batcher=batcher,
        admission=Admission(
            settings.admission.max_tokens, settings.admission.max_queued_tokens, settings.admission.tenant_share
        ),
        worker=worker,
        metrics=metrics,
        tracer=tracer_from_environment(),
    )
    return Slipstream(parts)


def build_encoder(settings: Settings, provisioner: Provisioner) -> Encoder:
    if settings.models.encoder == "fake":
        from slipstream.models.fake_encoder import FakeEncoder

        return FakeEncoder()
    from slipstream.models.encoder import OpenVinoEncoder

    return OpenVinoEncoder(provisioner.ensure(settings.models.encoder, "encoder").path, settings.encoder)


def build_store(settings: Settings, encoder: Encoder) -> Store:
    if settings.data.store == "memory":
        from slipstream.stores.memory import MemoryStore

        return MemoryStore(dimensions=encoder.dimensions)
    from slipstream.stores.qdrant_edge import QdrantEdgeStore

    return QdrantEdgeStore(Path(settings.data.dir) / "passages", dimensions=encoder.dimensions, encoder=encoder.name)


def _floor(settings: Settings, encoder: Encoder) -> Floor:
    if settings.retrieval.min_score is not None:
        return Floor(settings.retrieval.min_score, settings.retrieval.min_score)
    return _CALIBRATED_FLOORS.get(encoder.name, NO_FLOOR)


def _models(settings: Settings, provisioner: Provisioner) -> dict[Tier, LanguageModel]:
    named: tuple[tuple[Tier, str | None], ...] = (("small", settings.models.small), ("large", settings.models.large))
    return {tier: _model(name, settings, provisioner) for tier, name in named if name is not None}


def _model(name: str, settings: Settings, provisioner: Provisioner) -> LanguageModel:
    if name == "fake":
        from slipstream.models.fake_llm import FakeLanguageModel

        return FakeLanguageModel()
    from slipstream.models.llm_local import OpenVinoLanguageModel

    ready = provisioner.ensure(name, "llm")
    return OpenVinoLanguageModel(ready.path, name=ready.name, languages=ready.languages, settings=settings.engine)
