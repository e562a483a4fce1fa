"""What the program bounds beside answers: searches, embeddings, uploads; and what it records of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from slipstream.build import build
from slipstream.call import Call
from slipstream.errors import DeadlineExceeded, Overloaded, Unavailable
from slipstream.ingest.ledger import Ledger
from slipstream.ingest.run import Ingestor
from slipstream.models.base import TextKind
from slipstream.models.fake_encoder import FakeEncoder
from slipstream.server.app import create_app
from slipstream.service import Slipstream
from slipstream.settings import AdmissionSettings, DataSettings, ModelsSettings, Settings
from slipstream.types import Encoding, Question, Scope

pytestmark = pytest.mark.anyio


class Recorder:
    """A tracer that keeps what it is told."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, list[str]]] = []

    def record(self, call: Call, name: str) -> None:
        self.seen.append((name, [span.name for span in call.spans]))

    def close(self) -> None: ...


class HeldEncoder(FakeEncoder):
    """Encodes passages only when the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.begun = asyncio.Event()
        self.sizes: list[int] = []

    async def encode(self, texts: Sequence[str], kind: TextKind) -> list[Encoding]:
        if kind == "passage":
            self.sizes.append(len(texts))
            self.begun.set()
            await self.gate.wait()
        return await super().encode(texts, kind)


@asynccontextmanager
async def started(directory: Path, encoder: FakeEncoder | None = None, **limits: int) -> AsyncIterator[Slipstream]:
    settings = Settings(
        data=DataSettings(dir=directory, store="memory"),
        models=ModelsSettings(encoder="fake", small="fake"),
        admission=AdmissionSettings(**limits),
    )
    parts = replace(build(settings).parts, tracer=Recorder())
    if encoder is not None:
        ingestor = Ingestor(parts.store, encoder, Ledger(directory / "ledger.sqlite"), settings.ingest)
        parts = replace(parts, encoder=encoder, ingestor=ingestor)
    service = Slipstream(parts)
    try:
        await service.start()
        async with asyncio.timeout(30):
            yield service
    finally:
        await service.stop()


def traced(service: Slipstream) -> list[tuple[str, list[str]]]:
    tracer = service.parts.tracer
    assert isinstance(tracer, Recorder)
    return tracer.seen


def open_call(service: Slipstream, deadline_ms: int | None = None, tenant: str = "acme") -> Call:
    return service.open_call(tenant, deadline_ms, None)


async def search(service: Slipstream, call: Call) -> None:
    question = Question("How many days?", Scope(call.tenant))
    await service.search(question, call, limit=3, rerank=True)


async def test_encoding_beyond_the_bound_is_refused_at_once(tmp_path: Path) -> None:
    encoder = HeldEncoder()
    async with started(tmp_path, encoder, max_encoding_tokens=256, max_queued_encoding_tokens=0) as service:
        text = "many words " * 60
        first = asyncio.create_task(service.embed([text, text], "passage", open_call(service)))
        await encoder.begun.wait()
        with pytest.raises(Overloaded):
            await service.embed([text], "passage", open_call(service, tenant="other"))
        with pytest.raises(Overloaded):
            await search(service, open_call(service, tenant="other"))
        encoder.gate.set()
        assert len(await first) == 2
        await search(service, open_call(service))
        assert service.encoding.load().running == 0


async def test_a_large_embedding_request_is_encoded_in_lots_that_let_others_in_between(tmp_path: Path) -> None:
    encoder = HeldEncoder()
    encoder.gate.set()
    async with started(tmp_path, encoder, max_encoding_tokens=2_048) as service:
        texts = [f"{n} " + "many words " * 60 for n in range(64)]
        encodings = await service.embed(texts, "passage", open_call(service))
        alone = await FakeEncoder().encode(texts, "passage")
        assert [e.dense.tolist() for e in encodings] == [e.dense.tolist() for e in alone]
        assert len(encoder.sizes) > 4


async def test_a_deadline_ends_embeddings_and_uploads(tmp_path: Path) -> None:
    async with started(tmp_path, HeldEncoder()) as service:
        with pytest.raises(DeadlineExceeded):
            await service.embed(["words"], "passage", open_call(service, 30))
        with pytest.raises(DeadlineExceeded):
            await service.ingest("a.txt", b"some words", open_call(service, 30), collection="c")
        listed = await service.list_documents(
            open_call(service), collection=None, after="", after_collection="", limit=9
        )
        assert listed == []
        assert service.encoding.load().running == 0


@asynccontextmanager
async def over_http(service: Slipstream) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(create_app(service))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        yield http


async def test_uploads_beyond_the_bound_are_refused_before_they_are_read(tmp_path: Path) -> None:
    encoder = HeldEncoder()
    async with started(tmp_path, encoder, max_uploads_mib=1) as service, over_http(service) as http:
        first = asyncio.create_task(http.put("/v1/documents/a.txt", json={"text": "some words"}))
        await encoder.begun.wait()

        async def unread() -> AsyncIterator[bytes]:
            pytest.fail("The body was read.")
            yield b""

        refused = await http.put("/v1/documents/b.txt", content=unread())
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "overloaded")
        assert int(refused.headers["retry-after"]) >= 1
        encoder.gate.set()
        assert (await first).status_code == 201
        assert (await http.put("/v1/documents/b.txt", json={"text": "some words"})).status_code == 201


async def test_the_deadline_header_ends_an_upload(tmp_path: Path) -> None:
    async with started(tmp_path, HeldEncoder()) as service, over_http(service) as http:
        headers = {"x-slipstream-deadline-ms": "50"}
        late = await http.put("/v1/documents/a.txt", json={"text": "some words"}, headers=headers)
        assert (late.status_code, late.json()["error"]["code"]) == (504, "deadline_exceeded")
        assert service.uploads.load().running == 0


async def test_each_kind_of_call_is_recorded_under_its_name_even_when_it_fails(tmp_path: Path) -> None:
    async with started(tmp_path) as service, over_http(service) as http:
        await http.put("/v1/documents/a.txt", json={"text": "some words"})
        await service.embed(["words"], "query", open_call(service))
        await search(service, open_call(service))
        async with service.answer(Question("How many words?", Scope("acme")), open_call(service)) as events:
            assert [event async for event in events]
        await service.parts.batcher.close()
        with pytest.raises(Unavailable):
            await search(service, open_call(service))
        with pytest.raises(Unavailable):
            await service.embed(["words"], "query", open_call(service))
        seen = traced(service)
        assert [name for name, _ in seen] == ["ingest", "embed", "search", "answer", "search", "embed"]
        assert all("admission" in spans for name, spans in seen if name in {"search", "answer", "ingest"})
        assert "queue" not in seen[2][1]
        assert b'stage_seconds_count{stage="ingest"} 1.0' in service.metrics.render()
