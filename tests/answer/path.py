"""The path over shipped fakes and the exact store: what the tests of the stages stand on."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from slipstream.answer.assemble import Assembler
from slipstream.answer.confidence import UNCALIBRATED
from slipstream.answer.expand import Expander
from slipstream.answer.finish import Finisher
from slipstream.answer.generate import Generator
from slipstream.answer.pipeline import Pipeline
from slipstream.answer.plan import Planner
from slipstream.answer.rerank import Reranker
from slipstream.answer.retrieve import Retriever
from slipstream.answer.rewrite import Rewriter
from slipstream.answer.route import Router
from slipstream.answer.shape import Shaper
from slipstream.answer.wording import Wording
from slipstream.call import Call, Deadline
from slipstream.models.base import LanguageModel
from slipstream.models.fake_encoder import FakeEncoder
from slipstream.models.fake_llm import FakeLanguageModel
from slipstream.runtime.deadline import Ladder, StageCosts
from slipstream.runtime.workers import Worker
from slipstream.settings import AnswerSettings, RetrievalSettings
from slipstream.stores.base import Store
from slipstream.stores.memory import MemoryStore
from slipstream.text.language import language_of
from slipstream.types import (
    Encoding,
    Event,
    Finished,
    Found,
    IndexedPassage,
    Passage,
    Question,
    Scope,
    Tier,
    Turn,
)

TENANT = "acme"


@dataclass(slots=True)
class Path:
    pipeline: Pipeline
    store: Store
    encoder: FakeEncoder
    costs: StageCosts

    async def add(self, *texts: str, tenant: str = TENANT, collection: str = "docs") -> list[Passage]:
        passages = [passage(text, tenant, collection) for text in texts]
        encodings = await self.encoder.encode(list(texts), "passage")
        await self.store.upsert([IndexedPassage(p, e) for p, e in zip(passages, encodings, strict=True)])
        return passages

    async def ask(self, text: str, call: Call | None = None, **options: object) -> Asked:
        events = [event async for event in self.pipeline.answer(question(text, **options), call or new_call())]
        return Asked(events)


@dataclass(frozen=True, slots=True)
class Asked:
    events: Sequence[Event]

    @property
    def found(self) -> Found:
        first = self.events[0]
        assert isinstance(first, Found)
        return first

    @property
    def finished(self) -> Finished:
        last = self.events[-1]
        assert isinstance(last, Finished)
        return last

    @property
    def text(self) -> str:
        return "".join(token.text for event in self.events if isinstance(event, tuple) for token in event)


def passage(text: str, tenant: str = TENANT, collection: str = "docs", title: str = "") -> Passage:
    name = hashlib.sha256(text.encode()).hexdigest()[:12]
    return Passage(
        id=str(uuid.uuid5(uuid.NAMESPACE_OID, f"{tenant}/{collection}/{name}")),
        tenant=tenant,
        collection=collection,
        document_id=f"{name}.md",
        version="v1",
        position=0,
        text=text,
        start=0,
        end=len(text),
        title=title,
        source=f"{name}.md",
        language=language_of(text),
    )


def question(text: str, **options: object) -> Question:
    history = tuple(Turn("user", str(t)) for t in options.pop("asked", ()))  # type: ignore[attr-defined]
    return Question(text, Scope(str(options.pop("tenant", TENANT))), history, **options)  # type: ignore[arg-type]


def new_call(seconds: float | None = None) -> Call:
    return Call(TENANT, Deadline.after(seconds))


@asynccontextmanager
async def path(
    models: Mapping[Tier, LanguageModel] | None = None,
    store: Store | None = None,
    retrieval: RetrievalSettings | None = None,
    answer: AnswerSettings | None = None,
    wording_s: float = 5.0,
) -> AsyncIterator[Path]:
    models = {"small": FakeLanguageModel()} if models is None else models
    store = store or MemoryStore(dimensions=FakeEncoder().dimensions)
    retrieval = retrieval or RetrievalSettings()
    encoder, costs, worker = FakeEncoder(), StageCosts(), Worker("test-text")

    async def encode_all(texts: Sequence[str]) -> Sequence[Encoding]:
        return await encoder.encode(texts, "query")

    async def encode(text: str) -> Encoding:
        return (await encoder.encode([text], "query"))[0]

    generate = Generator(models)
    pipeline = Pipeline(
        Planner(Ladder(costs), retrieval, tuple(models)),
        Rewriter(),
        Expander(Retriever(store, encode, retrieval), encode_all, Wording(models, wording_s), retrieval, UNCALIBRATED),
        Reranker(store, retrieval, worker),
        Shaper(store, retrieval),
        Router(models, answer or AnswerSettings()),
        Assembler(models, answer or AnswerSettings(), worker),
        generate,
        Finisher(generate.model_name, worker),
    )
    try:
        yield Path(pipeline, store, encoder, costs)
    finally:
        await worker.close()
