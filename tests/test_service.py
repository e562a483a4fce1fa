"""The whole program over fakes and the embedded store: what users would notice if it were wrong."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from slipstream.build import build
from slipstream.errors import ConfigError, DeadlineExceeded, NotFound, Overloaded
from slipstream.models.fake_llm import FakeLanguageModel
from slipstream.service import Slipstream
from slipstream.settings import (
    AdmissionSettings,
    CacheSettings,
    DataSettings,
    ModelsSettings,
    Settings,
)
from slipstream.stores.qdrant_edge import QdrantEdgeStore
from slipstream.types import Citation, Finished, Found, Question, Sampling, Scope

pytestmark = pytest.mark.anyio

LEAVE = "Every employee has 28 days of leave a year. Unused days expire in March."
ZH = "每位员工每年有28天年假。未用完的年假在三月失效。"


def settings(directory: Path, **admission: int) -> Settings:
    return Settings(
        data=DataSettings(dir=directory),
        models=ModelsSettings(encoder="fake", small="fake"),
        admission=AdmissionSettings(**admission),
        cache=CacheSettings(mode="off"),
    )


@asynccontextmanager
async def started(directory: Path, **admission: int) -> AsyncIterator[Slipstream]:
    service = build(settings(directory, **admission))
    try:
        await service.start()
        yield service
    finally:
        await service.stop()


async def put(service: Slipstream, name: str, text: str, tenant: str = "acme", collection: str = "docs") -> str:
    call = service.open_call(tenant, None, None)
    return (await service.ingest(name, text.encode(), call, collection=collection)).outcome


async def ask(
    service: Slipstream, text: str, tenant: str = "acme", deadline_ms: int | None = None, **options: object
) -> tuple[str, tuple[Citation, ...]]:
    call = service.open_call(tenant, deadline_ms, None)
    found: tuple[Citation, ...] = ()
    pieces = []
    async with service.answer(Question(text, Scope(tenant), **options), call) as events:  # type: ignore[arg-type]
        async for event in events:
            if isinstance(event, Found):
                found = event.citations
            elif isinstance(event, tuple):
                pieces += [token.text for token in event]
            else:
                assert isinstance(event, Finished)
    return "".join(pieces), found


async def test_what_was_ingested_is_answered_and_survives_a_restart(tmp_path: Path) -> None:
    async with started(tmp_path) as service:
        assert await put(service, "leave.md", LEAVE) == "created"
        assert await put(service, "leave.md", LEAVE) == "unchanged"
        text, found = await ask(service, "How many days of leave has an employee?")
        assert "28 days" in text
        assert found[0].passage.document_id == "leave.md"
    async with started(tmp_path) as service:
        text, _ = await ask(service, "How many days of leave has an employee?")
        assert "28 days" in text


async def test_an_edit_replaces_and_a_deletion_removes(tmp_path: Path) -> None:
    async with started(tmp_path) as service:
        await put(service, "leave.md", LEAVE)
        assert await put(service, "leave.md", LEAVE.replace("28", "30")) == "replaced"
        text, found = await ask(service, "How many days of leave has an employee?")
        assert "30 days" in text
        assert len(found) == 1
        await service.delete_document("leave.md", service.open_call("acme", None, None), collection="docs")
        text, found = await ask(service, "How many days of leave has an employee?")
        assert found == ()
        with pytest.raises(NotFound):
            await service.delete_document("leave.md", service.open_call("acme", None, None), collection="docs")


async def test_chinese_all_the_way(tmp_path: Path) -> None:
    async with started(tmp_path) as service:
        await put(service, "年假.md", ZH)
        text, found = await ask(service, "员工每年有多少天年假？")
        assert "28天" in text
        assert found[0].passage.language == "zh"


async def test_a_new_tenant_is_told_at_once_that_there_is_nothing(tmp_path: Path) -> None:
    async with started(tmp_path) as service:
        await put(service, "leave.md", LEAVE)
        text, found = await ask(service, "How many days of leave has an employee?", tenant="newcomer")
        assert found == ()
        assert "could not find" in text


async def test_a_second_process_on_the_same_data_is_refused(tmp_path: Path) -> None:
    async with started(tmp_path) as service:
        await put(service, "leave.md", LEAVE)
        second = build(settings(tmp_path))
        with pytest.raises(ConfigError, match=str(os.getpid())):
            await second.start()
        await second.stop()
        text, _ = await ask(service, "How many days of leave has an employee?")
        assert "28 days" in text


@asynccontextmanager
async def with_model(directory: Path, model: FakeLanguageModel, **admission: int) -> AsyncIterator[Slipstream]:
    """The program with a slow model in place of the instant one."""
    service = build(settings(directory, **admission))
    service.parts.models["small"] = model  # type: ignore[index]
    try:
        await service.start()
        yield service
    finally:
        await service.stop()


class Gate:
    """Time passes for the model only when the test lets it."""

    def __init__(self) -> None:
        self._open = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        await self._open.wait()

    def open(self) -> None:
        self._open.set()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0)


async def test_two_requests_together_take_the_time_of_one(tmp_path: Path) -> None:
    gate = Gate()
    model = FakeLanguageModel(prefill_s=2.0, sleep=gate.sleep)
    async with with_model(tmp_path, model) as service:
        await put(service, "leave.md", LEAVE)
        both = [asyncio.create_task(ask(service, "How many days of leave?")) for _ in range(2)]
        await until(lambda: model.load().running == 2)
        gate.open()
        for text, _ in await asyncio.gather(*both):
            assert "28 days" in text


async def test_overload_is_refused_at_once_and_the_admitted_are_answered(tmp_path: Path) -> None:
    gate = Gate()
    model = FakeLanguageModel(prefill_s=1.0, sleep=gate.sleep)
    async with with_model(tmp_path, model, max_tokens=4_000, max_queued_tokens=0) as service:
        await put(service, "leave.md", LEAVE)
        crowd = [asyncio.create_task(ask(service, "How many days of leave?")) for _ in range(500)]
        await until(lambda: sum(task.done() for task in crowd) + service.parts.admission.load().running == 500)
        gate.open()
        outcomes = await asyncio.gather(*crowd, return_exceptions=True)
        refused = [o for o in outcomes if isinstance(o, Overloaded)]
        answered = [o for o in outcomes if isinstance(o, tuple)]
        assert len(refused) + len(answered) == 500
        assert answered
        assert all(error.retry_after_s and error.retry_after_s >= 1 for error in refused)
        assert all("28 days" in text for text, _ in answered)
        assert service.parts.admission.load().running_tokens == 0


async def test_a_client_who_leaves_frees_everything(tmp_path: Path) -> None:
    gate = Gate()
    model = FakeLanguageModel(token_s=1.0, sleep=gate.sleep)
    async with with_model(tmp_path, model) as service:
        await put(service, "leave.md", LEAVE)
        leaver = asyncio.create_task(ask(service, "How many days of leave?"))
        await until(lambda: model.load().running == 1)
        leaver.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaver
        assert model.load().running == 0
        assert model.load().kv_blocks_used == 0
        assert service.parts.admission.load().running == 0


async def test_a_deadline_ends_a_slow_answer(tmp_path: Path) -> None:
    async with with_model(tmp_path, FakeLanguageModel(prefill_s=30.0)) as service:
        await put(service, "leave.md", LEAVE)
        with pytest.raises(DeadlineExceeded):
            await ask(service, "How many days of leave?", deadline_ms=150)
        assert service.parts.admission.load().running == 0


async def test_a_dead_background_task_takes_readiness_down(tmp_path: Path) -> None:
    async with started(tmp_path) as service:
        assert service.readiness.ready
        await service.parts.batcher.close()
        assert not service.readiness.ready
        assert "batcher" in service.readiness.reason


async def test_max_tokens_and_stop_reach_the_model(tmp_path: Path) -> None:
    async with started(tmp_path) as service:
        await put(service, "leave.md", LEAVE)
        text, _ = await ask(service, "How many days of leave?", sampling=Sampling(max_tokens=3))
        assert len(text.split()) <= 3
        text, _ = await ask(service, "How many days of leave?", sampling=Sampling(stop=("days",)))
        assert "days" not in text


async def test_a_rebuild_that_fails_takes_nothing_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("slipstream.service._OPTIMIZE_EVERY_S", 0.01)
    monkeypatch.setattr("slipstream.service._OPTIMIZE_ABOVE", 0)
    async with started(tmp_path) as service:
        store = service.parts.store
        assert isinstance(store, QdrantEdgeStore)
        monkeypatch.setattr(store, "_rebuild_after", 1)
        (config,) = tmp_path.rglob("edge_config.json")  # noqa: ASYNC240 - a few files
        whole = config.read_bytes()
        config.write_text("{")
        await put(service, "leave.md", LEAVE)
        await until(lambda: caplog.text.count("The index could not be rebuilt") >= 2)
        assert service.readiness.ready
        config.write_bytes(whole)
        await until(lambda: not store.needs_optimize())
        assert "28 days" in (await ask(service, "How many days of leave has an employee?"))[0]
