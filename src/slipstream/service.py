"""The program behind the wire: admission around the path, ingestion beside it, every part started and stopped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from slipstream.answer.assemble import system_prefix
from slipstream.answer.cache import CachedAnswers
from slipstream.answer.pipeline import Pipeline
from slipstream.answer.rank_texts import Lot, RankedTexts, TextRanker
from slipstream.cache.answers import AnswerCache
from slipstream.cache.entry import EntriesInfo, Purge
from slipstream.call import Call, Deadline
from slipstream.errors import NotFound, SlipstreamError
from slipstream.ingest.ledger import DocumentRecord
from slipstream.ingest.run import DocumentResult, Ingestor
from slipstream.models.base import CrossEncoder, Encoder, LanguageModel, TextKind
from slipstream.observe.loop_lag import LoopLag
from slipstream.observe.metrics import Metrics
from slipstream.observe.tracing import Tracer
from slipstream.runtime.admission import Admission
from slipstream.runtime.batcher import Batcher
from slipstream.runtime.supervise import Supervisor
from slipstream.runtime.tenant_requests import TenantRequests
from slipstream.runtime.warmup import Readiness, Step, warm_up
from slipstream.runtime.within import within
from slipstream.runtime.workers import Worker
from slipstream.settings import Settings
from slipstream.stores.base import Store
from slipstream.types import (
    Candidate,
    Candidates,
    Encoding,
    Event,
    Leg,
    Passage,
    Passages,
    Question,
    Scalar,
    Scope,
    Tier,
)

log = logging.getLogger(__name__)

_OPTIMIZE_EVERY_S = 20.0
"""How often the store is asked whether its index has work to do."""
_OPTIMIZE_ABOVE = 2_000
"""Passages outside a graph are scanned exactly: below this many, that costs less than building."""
_SEARCH_TOKENS = 64
"""What a search costs beside its query's own tokens."""
_WORDING_TOKENS = 256
"""What a search that asks a language model costs it, about."""
_LOT_TOKENS = 2_048
"""Of an embedding request that are encoded under one permit, so that searches get in between."""
_UPLOAD_BYTES = 1 << 20
"""What an upload counts for at least: many small ones cost as much as a few large ones."""
_CHARACTERS_PER_TOKEN = 3
"""For the estimate that admission takes; the model's tokenizer counts exactly later."""


@dataclass(frozen=True, slots=True)
class ModelCard:
    id: str
    tier: Tier | None
    owned_by: str = "slipstream"
    created: int = 0


@dataclass(frozen=True, slots=True)
class TenantState:
    documents: int
    passages: int
    bytes: int
    requests: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class SearchResult:
    passages: Passages
    candidates: Sequence[Candidate]
    legs: Sequence[Leg] = ()
    ranked: Passages | None = None
    """Before shaping."""
    named: Sequence[Passage] = ()


@dataclass(frozen=True, slots=True)
class Parts:
    """What `build.py` puts together; nothing in here has been started."""

    settings: Settings
    encoder: Encoder
    store: Store
    ingestor: Ingestor
    models: Mapping[Tier, LanguageModel]
    pipeline: Pipeline
    batcher: Batcher[str, Encoding]
    text_ranker: TextRanker
    admission: Admission
    worker: Worker
    metrics: Metrics
    tracer: Tracer
    cache: AnswerCache | None = None
    cross_encoder: CrossEncoder | None = None
    pair_batcher: Batcher[Any, float] | None = None
    """What gathers the pairs of all users for a cross-encoder that runs here."""


class Slipstream:
    """Meets server.base.Service; one instance is one server, or one command on the same data."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.settings = parts.settings
        self.metrics = parts.metrics
        self.readiness = Readiness()
        self.loop_lag = LoopLag(parts.metrics.loop_lag)
        self._cached: CachedAnswers | None = None
        limits = parts.settings.admission
        self.encoding = Admission(limits.max_encoding_tokens, limits.max_queued_encoding_tokens, limits.tenant_share)
        """What searches and embeddings go through; ingestion encodes in lots that let both in between."""
        self.uploads = Admission(limits.max_uploads_mib << 20, 0)
        """In bytes, not tokens."""
        self.requests = TenantRequests()
        self._stack = AsyncExitStack()
        self._passages = 0

    @property
    def parts(self) -> Parts:
        """For benchmarks and tests that look inside."""
        return self._parts

    @property
    def models(self) -> Sequence[ModelCard]:
        tiers = [ModelCard(model.name, tier) for tier, model in self._parts.models.items()]
        return (*tiers, ModelCard(self._parts.encoder.name, None))

    # --- life ---

    async def start(self) -> None:
        """Opens the data, loads and warms every model, then says ready. Raises what kept it from that."""
        parts = self._parts
        steps = [
            Step("the passage store", self._open_store),
            Step("the ledger", self._open_ingestor),
            Step(f"the encoder {parts.encoder.name}", self._open_encoder),
            *(
                [Step(f"the cross-encoder {parts.cross_encoder.name}", self._open_cross_encoder)]
                if parts.cross_encoder is not None
                else []
            ),
            *(
                Step(f"the {tier} model {model.name}", self._opener(tier, model))
                for tier, model in parts.models.items()
            ),
            *([Step("the answer cache", self._opener_of_cache(parts.cache))] if parts.cache is not None else []),
            Step("the first search", self._first_search),
        ]
        await warm_up(steps, self.readiness)
        await self._watch()

    async def stop(self) -> None:
        """Refuses what comes, ends what runs, closes every part in reverse order."""
        self.readiness.drain()
        for admission in (self._parts.admission, self.encoding, self.uploads):
            await admission.close()
        await self._stack.aclose()

    async def _open_store(self) -> None:
        await self._parts.store.open()
        self._stack.push_async_callback(self._parts.store.close)

    async def _open_ingestor(self) -> None:
        await self._parts.ingestor.open()
        self._stack.push_async_callback(self._parts.ingestor.close)

    async def _open_encoder(self) -> None:
        parts = self._parts
        self._stack.push_async_callback(parts.encoder.close)
        await parts.encoder.warm_up()
        self._stack.push_async_callback(parts.worker.close)
        await self._stack.enter_async_context(parts.batcher)

    async def _open_cross_encoder(self) -> None:
        parts = self._parts
        if parts.cross_encoder is not None:
            self._stack.push_async_callback(parts.cross_encoder.close)
            await parts.cross_encoder.warm_up()
        if parts.pair_batcher is not None:
            await self._stack.enter_async_context(parts.pair_batcher)

    def _opener(self, tier: Tier, model: LanguageModel) -> Callable[[], Awaitable[None]]:
        async def open_model() -> None:
            self._stack.push_async_callback(model.close)
            await model.warm_up([system_prefix(language) for language in sorted(model.languages)])
            self.metrics.watch_engine(model.name, model.load)

        return open_model

    def _opener_of_cache(self, cache: AnswerCache) -> Callable[[], Awaitable[None]]:
        async def open_cache() -> None:
            await cache.open()
            self._stack.push_async_callback(cache.close)
            supervisor = await self._stack.enter_async_context(Supervisor(self.readiness))
            supervisor.start("answer-cache", cache.run())
            self._cached = CachedAnswers(self._parts.pipeline, cache, self._admitted_answer)
            self._stack.push_async_callback(self._cached.close)

        return open_cache

    async def _first_search(self) -> None:
        """Touches the store's segments by the path itself."""
        call = Call("warm-up", Deadline.after(None))
        await self._parts.pipeline.find(Question("warm-up", Scope("warm-up")), call)

    async def _watch(self) -> None:
        parts = self._parts
        supervisor = await self._stack.enter_async_context(Supervisor(self.readiness))
        supervisor.start("loop-lag", self.loop_lag.run())
        supervisor.start("optimize", self._optimize())
        self.readiness.watch("passage store", parts.store.healthy)
        self.readiness.watch("query batcher", parts.batcher.healthy)
        if parts.pair_batcher is not None:
            self.readiness.watch("cross-encoder batcher", parts.pair_batcher.healthy)
        for model in parts.models.values():
            self.readiness.watch(f"model {model.name}", model.healthy)
        self.metrics.watch_admission(parts.admission.load)
        self.metrics.watch_passages(lambda: self._passages)

    async def _optimize(self) -> None:
        """Keeps the index built, off the path. A failure is tried again: searches go on with the index there is."""
        while True:
            try:
                info = await self._parts.store.info()
                self._passages = info.passages
                if info.stale or info.passages - info.indexed >= _OPTIMIZE_ABOVE:
                    await self._parts.store.optimize()
            except SlipstreamError as error:
                log.warning("The index could not be rebuilt; trying again in %.0f s. %s", _OPTIMIZE_EVERY_S, error)
            await asyncio.sleep(_OPTIMIZE_EVERY_S)

    # --- the path ---

    def open_call(self, tenant: str, deadline_ms: int | None, request_id: str | None) -> Call:
        deadline = Deadline.after((deadline_ms or self.settings.admission.deadline_ms) / 1000)
        return Call(tenant, deadline, request_id) if request_id else Call(tenant, deadline)

    def refuse_if_full(self, tenant: str | None = None) -> None:
        """A question takes at least the budget of its evidence."""
        self._parts.admission.refuse_if_full(self.settings.answer.context_tokens, tenant)

    def answer(self, question: Question, call: Call) -> AbstractAsyncContextManager[AsyncIterator[Event]]:
        """Admitted before anything is computed; leaving the context cancels what runs."""
        if self._cached is not None and question.cache != "off":
            return _CachedAnswering(self, self._cached, question, call)
        return _Answering(self, question, call)

    async def search(
        self, question: Question, call: Call, *, limit: int, rerank: bool, explain: bool = False
    ) -> SearchResult:
        pipeline = self._parts.pipeline
        scored = self.settings.retrieval.rerank_limit if question.candidates is None else question.candidates
        question = replace(question, passages=limit, candidates=max(limit, scored) if rerank and scored else 0)
        tokens = _SEARCH_TOKENS + self._text_tokens(question.text)
        async with (
            self._admitted("search", self.encoding, tokens, call),
            self._admitted_to_models(question, call),
            within(call.deadline, "searching"),
        ):
            query = pipeline.rewrite(question, call)
            candidates = await pipeline.retrieve(query, question, call)
            ranked = await pipeline.rerank(candidates, pipeline.shape.widened(question), call)
            passages = await pipeline.shape(ranked, question, call)
            named = await self._named(candidates, limit, question) if explain else ()
        return SearchResult(passages, candidates.items, candidates.legs, ranked, named)

    def _admitted_to_models(self, question: Question, call: Call) -> AbstractAsyncContextManager[object]:
        """A search that may ask a language model takes its turn among the questions."""
        how = question.search.expand or self.settings.retrieval.expand
        if how in {"multi", "hyde"} and self._parts.models:
            return self._parts.admission.admit(call.tenant, _WORDING_TOKENS, call.deadline)
        return nullcontext()

    async def _named(self, candidates: Candidates, limit: int, question: Question) -> Sequence[Passage]:
        """The passages at the head of every leg and of their fusion, for whoever wants to see them."""
        ids = dict.fromkeys(hit.passage_id for leg in candidates.legs for hit in leg.hits[:limit])
        ids.update((candidate.passage_id, None) for candidate in candidates.items[:limit])
        return await self._parts.store.fetch(list(ids), question.scope)

    async def embed(self, texts: Sequence[str], kind: TextKind, call: Call) -> list[Encoding]:
        encodings: list[Encoding] = []
        try:
            async with within(call.deadline, "encoding"):
                with call.stage("encode", texts=len(texts)):
                    for lot in self._lots(texts):
                        async with self.encoding.admit(call.tenant, lot.tokens, call.deadline):
                            encodings += await self._encoded(lot.texts, kind)
        finally:
            self._finished(call, "embed")
        return encodings

    @property
    def ranking_models(self) -> Sequence[str]:
        return self._parts.text_ranker.models

    async def rerank(self, query: str, texts: Sequence[str], model: str | None, call: Call) -> RankedTexts:
        """Scores texts against a query; `model` None takes the best there is."""
        lots = list(self._lots(texts, self._text_tokens(query)))
        try:
            async with within(call.deadline, "reranking"):
                return await self._parts.text_ranker(
                    query, lots, model, lambda tokens: self.encoding.admit(call.tenant, tokens, call.deadline), call
                )
        finally:
            self._finished(call, "rerank")

    async def _encoded(self, texts: Sequence[str], kind: TextKind) -> list[Encoding]:
        if kind == "query":
            return await self._parts.batcher.submit_many(texts)
        return await self._parts.encoder.encode(texts, kind)

    def _lots(self, texts: Sequence[str], beside: int = 0) -> Iterator[Lot]:
        """`beside` is what is computed with each text."""
        held: list[str] = []
        tokens = 0
        for text in texts:
            more = self._text_tokens(text) + beside
            if held and tokens + more > _LOT_TOKENS:
                yield Lot(held, tokens)
                held, tokens = [], 0
            held.append(text)
            tokens += more
        yield Lot(held, tokens)

    def _text_tokens(self, text: str) -> int:
        """About: a Chinese character is three bytes and most of a token; longer text than the encoder takes is cut."""
        return min(1 + len(text.encode()) // 3, self._parts.encoder.max_tokens)

    @asynccontextmanager
    async def _admitted(self, name: str, admission: Admission, tokens: int, call: Call) -> AsyncIterator[None]:
        """Recorded under `name` however it ends."""
        async with AsyncExitStack() as stack:
            stack.callback(self._finished, call, name)
            with call.stage("admission"):
                await stack.enter_async_context(admission.admit(call.tenant, tokens, call.deadline))
            yield

    def _finished(self, call: Call, name: str) -> None:
        self.requests.count(call.tenant, name)
        self._parts.pipeline.plan.learn(call)
        self.metrics.record_call(call)
        self._parts.tracer.record(call, name)

    def _estimated_tokens(self, question: Question) -> int:
        said = len(question.text) + len(question.instructions) + sum(len(turn.text) for turn in question.history)
        prompt = self.settings.answer.context_tokens + said // _CHARACTERS_PER_TOKEN
        return prompt + question.sampling.max_tokens

    @asynccontextmanager
    async def _admitted_answer(self, question: Question, call: Call) -> AsyncIterator[None]:
        with call.stage("admission"):
            tokens = self._estimated_tokens(question)
            permit = await self._parts.admission.acquire(call.tenant, tokens, call.deadline)
        try:
            yield
        finally:
            self._parts.admission.give_back(permit)

    # --- the answer cache ---

    async def cache_info(self, call: Call) -> EntriesInfo:
        """Raises NotFound when no cache is configured."""
        return await self._cache.info(call.tenant)

    async def purge_cache(self, which: Purge, call: Call) -> int:
        return await self._cache.purge(call.tenant, which)

    async def feedback(self, request_id: str, rating: str, comment: str, call: Call) -> bool:
        return await self._cache.feedback(call.tenant, request_id, rating, comment)

    @property
    def _cache(self) -> AnswerCache:
        if self._parts.cache is None:
            raise NotFound('There is no answer cache here: cache.mode is "off".', code="no_cache")
        return self._parts.cache

    # --- documents ---

    @asynccontextmanager
    async def upload(self, call: Call, size_bytes: int) -> AsyncIterator[None]:
        async with self._admitted("ingest", self.uploads, max(size_bytes, _UPLOAD_BYTES), call):
            yield

    async def ingest(
        self,
        name: str,
        data: bytes,
        call: Call,
        *,
        collection: str,
        document_id: str | None = None,
        media_type: str | None = None,
        metadata: Mapping[str, Scalar] | None = None,
        time: float | None = None,
    ) -> DocumentResult:
        async with within(call.deadline, "indexing the document"):
            with call.stage("ingest", bytes=len(data)):
                result = await self._parts.ingestor.ingest_bytes(
                    name,
                    data,
                    tenant=call.tenant,
                    collection=collection,
                    document_id=document_id,
                    media_type=media_type,
                    metadata=metadata,
                    time=time,
                )
        self.metrics.ingested(result.outcome, result.document.passages)
        return result

    async def delete_document(self, document_id: str, call: Call, *, collection: str) -> None:
        if not await self._parts.ingestor.delete(call.tenant, collection, document_id):
            raise _no_document(document_id, collection)
        self.metrics.ingested("deleted")

    async def get_document(self, document_id: str, call: Call, *, collection: str) -> DocumentRecord:
        record = await self._parts.ingestor.get_document(call.tenant, collection, document_id)
        if record is None:
            raise _no_document(document_id, collection)
        return record

    async def list_documents(
        self, call: Call, *, collection: str | None, after: str, after_collection: str, limit: int
    ) -> Sequence[DocumentRecord]:
        return await self._parts.ingestor.list_documents(
            call.tenant, collection, limit=limit, after=after, after_collection=after_collection
        )

    async def tenant(self, call: Call) -> TenantState:
        """What the call's tenant keeps, and how often it asked."""
        use = await self._parts.ingestor.use(call.tenant)
        passages = await self._parts.store.count(Scope(call.tenant))
        return TenantState(use.documents, passages, use.bytes, self.requests.of(call.tenant))

    async def _purge_all(self, tenant: str) -> None:
        if self._parts.cache is not None:
            await self._parts.cache.purge(tenant, Purge())

    async def delete_tenant(self, call: Call) -> TenantState:
        """Everything of the call's tenant goes; says what that was."""
        asked, passages = self.requests.of(call.tenant), await self._parts.store.count(Scope(call.tenant))
        await self._purge_all(call.tenant)
        gone = await self._parts.ingestor.delete_tenant(call.tenant)
        await self._purge_all(call.tenant)  # what was answered meanwhile
        self.requests.forget(call.tenant)
        return TenantState(gone.documents, passages, gone.bytes, asked)


class _CachedAnswering:
    """One question through the cache, which admits it only when it has to compute."""

    __slots__ = ("_cached", "_call", "_events", "_question", "_service")

    def __init__(self, service: Slipstream, cached: CachedAnswers, question: Question, call: Call) -> None:
        self._service = service
        self._cached = cached
        self._question = question
        self._call = call

    async def __aenter__(self) -> AsyncIterator[Event]:
        self._events = self._cached.answer(self._question, self._call)
        return self._events

    async def __aexit__(self, *raised: object) -> None:
        try:
            await self._events.aclose()
        finally:
            self._service._finished(self._call, "answer")


class _Answering:
    """One question from its admission to its end: a class and not a generator, since every request enters one."""

    __slots__ = ("_call", "_events", "_permit", "_question", "_service")

    def __init__(self, service: Slipstream, question: Question, call: Call) -> None:
        self._service = service
        self._question = question
        self._call = call

    async def __aenter__(self) -> AsyncIterator[Event]:
        service, call = self._service, self._call
        tokens = service._estimated_tokens(self._question)
        with call.stage("admission"):
            self._permit = await service.parts.admission.acquire(call.tenant, tokens, call.deadline)
        self._events = service.parts.pipeline.answer(self._question, call)
        return self._events

    async def __aexit__(self, *raised: object) -> None:
        try:
            await self._events.aclose()
        finally:
            self._service._finished(self._call, "answer")
            self._service.parts.admission.give_back(self._permit)


def _no_document(document_id: str, collection: str) -> NotFound:
    return NotFound(
        f'There is no document "{document_id}" in collection "{collection}". GET /v1/documents lists those there are.',
        code="document_not_found",
    )
