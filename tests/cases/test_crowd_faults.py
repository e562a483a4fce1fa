"""Faults of a crowd: polls that wait, overload that queues, clients who left, a second process on the same data."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import psutil
import pytest
from cases.product import (
    CHAT,
    FAKES_ON_EDGE,
    SEARCH,
    Gate,
    InProcess,
    answer,
    asking,
    in_process,
    own_process,
    put,
    until,
)

from slipstream.errors import Unavailable
from slipstream.models.fake_llm import FakeLanguageModel
from slipstream.settings import AdmissionSettings

pytestmark = pytest.mark.anyio

LEAVE = "Every employee has 28 days of leave a year."
QUESTION = "How many days of leave has an employee?"


async def test_a_health_poll_does_not_wait_for_a_hundred_candidates_being_reranked(tmp_path: Path) -> None:
    words = [f"word{n}" for n in range(400)]
    async with own_process(
        tmp_path,
        {
            **FAKES_ON_EDGE,
            "SLIPSTREAM_INGEST__PASSAGE_TOKENS": "400",
            "SLIPSTREAM_RETRIEVAL__RERANK_LIMIT": "100",
            "SLIPSTREAM_RETRIEVAL__DENSE_LIMIT": "100",
        },
    ) as http:
        for n in range(100):
            await put(http, f"{n}.txt", " ".join(words[n:] + words[:n]))
        polls: list[float] = []
        polling = asyncio.create_task(poll(http, polls))
        reranks = [await rerank_s(http, " ".join(words)) for _ in range(5)]
        polling.cancel()
        assert len(polls) >= 5
        assert max(polls) < 1
        waited = [took_s for took_s in polls if took_s > median(reranks) / 2]
        assert len(waited) <= 1, "polls waited for reranks to end"


async def poll(http: httpx.AsyncClient, took_s: list[float]) -> None:
    while True:
        began = time.perf_counter()
        assert (await http.get("/healthz")).status_code == 200
        took_s.append(time.perf_counter() - began)
        await asyncio.sleep(0.05)


async def rerank_s(http: httpx.AsyncClient, query: str) -> float:
    body = (await http.post(SEARCH, json={"query": query, "limit": 1})).json()
    (stage,) = (stage for stage in body["stages"] if stage["name"] == "late_interaction")
    assert stage["detail"]["candidates"] == 100
    return float(stage["duration_ms"]) / 1000


CAPACITY = AdmissionSettings(max_tokens=3_400, max_queued_tokens=0)
"""Four requests of this size; none may wait."""


async def test_five_hundred_at_a_capacity_of_four_are_refused_at_once_and_memory_stays_flat(tmp_path: Path) -> None:
    own = psutil.Process()
    async with in_process(tmp_path, FakeLanguageModel(), CAPACITY) as server:
        await put(server.http, "leave.md", LEAVE)
        resident = []
        for _ in range(2):
            await burst(server)
            resident.append(own.memory_info().rss)
        assert resident[-1] - resident[0] < 32 << 20


async def burst(server: InProcess) -> None:
    gate = Gate()
    server.service.parts.models["small"] = FakeLanguageModel(prefill_s=1.0, sleep=gate.sleep)  # type: ignore[index]
    began = time.perf_counter()
    crowd = [
        asyncio.create_task(server.http.post(CHAT, json=asking(QUESTION, max_tokens=32, stream=bool(n % 2))))
        for n in range(500)
    ]
    await until(lambda: sum(task.done() for task in crowd) == 496)
    refused_s = time.perf_counter() - began
    gate.open()
    answers = await asyncio.gather(*crowd)
    refused = [response for response in answers if response.status_code == 429]
    assert sum(response.status_code == 200 and "28" in response.text for response in answers) == 4
    assert len(refused) == 496
    assert all(int(response.headers["retry-after"]) >= 1 for response in refused)
    assert {response.json()["error"]["code"] for response in refused} == {"overloaded"}
    assert refused_s < 15, "500 connections from one client; nobody waits for the four that run"
    assert server.service.parts.admission.load().running_tokens == 0


@pytest.mark.parametrize("stream", [True, False])
async def test_the_slot_of_a_client_who_closed_after_five_tokens_is_free_within_a_second(
    tmp_path: Path, stream: bool
) -> None:
    model = FakeLanguageModel(tokens=500, token_s=1.0, sleep=Gate(free=4).sleep)
    async with in_process(tmp_path, model) as server:
        await put(server.http, "leave.md", LEAVE)
        reader, writer = await asyncio.open_connection(server.host, server.port)
        writer.write(request(asking(QUESTION, stream=stream, max_tokens=500)))
        if stream:
            for _ in range(5):
                await reader.readuntil(b'"content":"')
        await until(lambda: model.load().running == 1)
        writer.close()
        admission = server.service.parts.admission
        await until(lambda: model.load().running == model.load().kv_blocks_used == admission.load().running == 0, 1)
        server.service.parts.models["small"] = FakeLanguageModel()  # type: ignore[index]
        text, _ = await answer(server.http, QUESTION)
        assert text.startswith(LEAVE), "the half answer left no trace"


def request(body: dict[str, Any]) -> bytes:
    data = json.dumps(body).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


async def test_a_second_server_on_the_same_data_ends_with_a_clear_refusal_and_harms_nothing(tmp_path: Path) -> None:
    async with own_process(tmp_path) as http:
        await put(http, "leave.md", LEAVE)
        (tmp_path / "server.log").rename(tmp_path / "first.log")
        with pytest.raises(Unavailable, match=r"in\s+use\s+by\s+process"):
            async with own_process(tmp_path):
                pass
        assert "28" in (await answer(http, QUESTION))[0]
        await put(http, "more.md", "The office opens at nine.")
    async with own_process(tmp_path) as http:
        assert "nine" in (await answer(http, "When does the office open?"))[0]
        assert "28" in (await answer(http, QUESTION))[0]
