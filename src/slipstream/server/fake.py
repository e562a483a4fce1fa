"""A Service that answers from a script: for tests of the wire, and for measuring what the wire costs."""

from __future__ import annotations

import hashlib
import time as clock
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from slipstream.cache.entry import EntriesInfo, Purge
from slipstream.call import Call, Deadline
from slipstream.errors import DataError, NotFound
from slipstream.models.base import TextKind
from slipstream.observe.metrics import Metrics
from slipstream.runtime.warmup import Readiness
from slipstream.settings import Settings
from slipstream.types import (
    Answer,
    Candidate,
    Citation,
    Encoding,
    Event,
    Evidence,
    Finished,
    Found,
    Hit,
    Leg,
    Passage,
    Passages,
    Query,
    Question,
    Scalar,
    Scorer,
    Tier,
    Token,
    Usage,
)

Script: TypeAlias = Callable[[Question, Call], AsyncIterator[Event]]

DIMENSIONS = 4

PASSAGE = Passage(
    id="6f1e2d3c-0000-5000-8000-000000000001",
    tenant="default",
    collection="default",
    document_id="notes/weather.md",
    version="v1",
    position=0,
    text="The sky is blue. 雨天没有阳光。 Grass is green.",
    start=100,
    end=142,
    title="Weather",
    source="notes/weather.md",
    headings=("Weather", "Colours"),
    type="markdown",
    time=1_700_000_000.0,
    language="en",
)
CITATION = Citation(index=1, passage=PASSAGE, sentence=(0, 16), score=0.75)


@dataclass(frozen=True, slots=True)
class FakeCard:
    id: str
    tier: Tier | None
    owned_by: str = "slipstream"
    created: int = 1_700_000_000


@dataclass(frozen=True, slots=True)
class FakeSearchResult:
    passages: Passages
    candidates: Sequence[Candidate]
    legs: Sequence[Leg]
    ranked: Passages | None
    named: Sequence[Passage]


@dataclass(frozen=True, slots=True)
class FakeRankedTexts:
    model: str
    scorer: Scorer
    scores: Sequence[float]
    tokens: int


@dataclass(frozen=True, slots=True)
class FakeDocument:
    id: str
    collection: str
    title: str
    source: str
    type: str
    version: str
    passages: int
    time: float


@dataclass(frozen=True, slots=True)
class FakeTenant:
    documents: int
    passages: int
    bytes: int
    requests: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class FakeIngested:
    document: FakeDocument
    outcome: Literal["created", "replaced", "unchanged"]


def answer_script(words: Sequence[str] = ("The ", "sky ", "is ", "blue [1].")) -> Script:
    """Evidence, the words, the end, all without waiting."""

    async def script(question: Question, call: Call) -> AsyncIterator[Event]:
        with call.stage("retrieve"):
            query = Query(question.text, "en")
        yield Found(query, (CITATION,))
        usage = Usage(prompt_tokens=20, completion_tokens=len(words), cached_tokens=5)
        for word in words[:-1]:
            yield (Token(word),)
        yield (Token(words[-1], 1, "stop", usage),)
        yield Finished(Answer("".join(words), (CITATION,), "stop", usage, "small", "scripted", supported=True))

    return script


class ScriptedService:
    """Keeps documents in a dict, answers by `script`, and remembers what it was asked."""

    def __init__(self, settings: Settings, script: Script | None = None) -> None:
        self.settings = settings
        self.script = script or answer_script()
        self.metrics = Metrics()
        self.readiness = Readiness()
        self.models = (FakeCard("scripted", "small"), FakeCard("scripted-encoder", None))
        self.questions: list[Question] = []
        self.calls: list[Call] = []
        self.started = self.stopped = 0
        self.running = 0
        self.purged: list[tuple[str, Purge]] = []
        self.feedbacks: list[tuple[str, str, str, str]] = []
        self.documents: dict[tuple[str, str, str], FakeDocument] = {}

    async def start(self) -> None:
        self.started += 1
        self.readiness.warmed()

    async def stop(self) -> None:
        self.stopped += 1

    def open_call(self, tenant: str, deadline_ms: int | None, request_id: str | None) -> Call:
        deadline = Deadline.after((deadline_ms or self.settings.admission.deadline_ms) / 1000)
        call = Call(tenant, deadline, request_id or "req_fake")
        self.calls.append(call)
        return call

    def refuse_if_full(self, tenant: str | None = None) -> None:
        """There is always room."""

    @asynccontextmanager
    async def answer(self, question: Question, call: Call) -> AsyncIterator[AsyncIterator[Event]]:
        self.questions.append(question)
        self.running += 1
        try:
            yield self.script(question, call)
        finally:
            self.running -= 1

    async def cache_info(self, call: Call) -> EntriesInfo:
        return EntriesInfo(entries=1, bytes=2_048, oldest_at=1_700_000_000.0, hits=3, saved_s=4.5)

    async def purge_cache(self, which: Purge, call: Call) -> int:
        self.purged.append((call.tenant, which))
        return 1

    async def feedback(self, request_id: str, rating: str, comment: str, call: Call) -> bool:
        self.feedbacks.append((call.tenant, request_id, rating, comment))
        return rating == "bad"

    async def search(
        self, question: Question, call: Call, *, limit: int, rerank: bool, explain: bool = False
    ) -> FakeSearchResult:
        self.questions.append(question)
        query = Query(question.text, "en")
        item = Evidence(PASSAGE, 0.75, "maxsim" if rerank else "rrf", (0, 16), 0.8)
        sparse_rank = None if question.search.mode == "dense" else 1
        dense_rank = None if question.search.mode == "sparse" else 2
        candidate = Candidate(PASSAGE.id, 0.03, dense_rank, sparse_rank)
        found = Passages(query, (item,))
        legs = (Leg("sparse", question.text, (Hit(PASSAGE.id, 4.5),)),)
        return FakeSearchResult(found, (candidate,), legs, found, (PASSAGE,) if explain else ())

    async def rerank(self, query: str, texts: Sequence[str], model: str | None, call: Call) -> FakeRankedTexts:
        """Scores a text by how many of the query's words it holds."""
        if model not in {None, "scripted-encoder"}:
            raise NotFound(f'"{model}" ranks nothing here.', code="model_not_found", param="model")
        wanted = set(query.split())
        scores = [len(wanted & set(text.split())) / max(1, len(wanted)) for text in texts]
        return FakeRankedTexts("scripted-encoder", "maxsim", scores, sum(len(text.split()) for text in texts))

    async def embed(self, texts: Sequence[str], kind: TextKind, call: Call) -> list[Encoding]:
        return [_encoding(text) for text in texts]

    @asynccontextmanager
    async def upload(self, call: Call, size_bytes: int) -> AsyncIterator[None]:
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1

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
    ) -> FakeIngested:
        if not data.strip():
            raise DataError(f"{name} holds no text.")
        key = (call.tenant, collection, document_id or name)
        version = hashlib.sha256(data).hexdigest()
        modified = clock.time() if time is None else time
        document = FakeDocument(key[2], collection, name, name, media_type or "text", version, 1, modified)
        before = self.documents.get(key)
        self.documents[key] = document
        if before is None:
            return FakeIngested(document, "created")
        return FakeIngested(document, "unchanged" if before.version == version else "replaced")

    async def delete_document(self, document_id: str, call: Call, *, collection: str) -> None:
        await self.get_document(document_id, call, collection=collection)
        del self.documents[call.tenant, collection, document_id]

    async def get_document(self, document_id: str, call: Call, *, collection: str) -> FakeDocument:
        try:
            return self.documents[call.tenant, collection, document_id]
        except KeyError:
            raise NotFound(f'There is no document "{document_id}".', code="document_not_found") from None

    async def tenant(self, call: Call) -> FakeTenant:
        kept = sum(tenant == call.tenant for tenant, _, _ in self.documents)
        return FakeTenant(kept, kept, 10 * kept, {"answer": 3})

    async def delete_tenant(self, call: Call) -> FakeTenant:
        before = await self.tenant(call)
        self.documents = {key: value for key, value in self.documents.items() if key[0] != call.tenant}
        return before

    async def list_documents(
        self, call: Call, *, collection: str | None, after: str, after_collection: str, limit: int
    ) -> list[FakeDocument]:
        found = [
            document
            for (tenant, place, _), document in self.documents.items()
            if tenant == call.tenant
            and collection in {None, place}
            and (document.id, place) > (after, after_collection)
        ]
        return sorted(found, key=lambda document: (document.id, document.collection))[:limit]


def _encoding(text: str) -> Encoding:
    dense = np.ones(DIMENSIONS, np.float32) / np.float32(DIMENSIONS**0.5)
    count = len(text.split())
    return Encoding(dense, np.tile(dense, (count, 1)), np.zeros((count, 2), np.int32))
