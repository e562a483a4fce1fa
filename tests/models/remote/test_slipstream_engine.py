"""A Slipstream server as an engine's replica: it takes over unseen, and its death within an answer is told of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from slipstream.bench.engine_process import EngineProcess, busy, engines
from slipstream.bench.process import FAKE_MODELS, slipstream_server
from slipstream.call import Call, Deadline
from slipstream.errors import Unavailable
from slipstream.models.llm_http import RemoteLanguageModel
from slipstream.settings import RemoteEngineSettings
from slipstream.types import Message, Sampling, Token

pytestmark = pytest.mark.anyio

MESSAGES = (Message("user", "How many days of leave does every employee have?"),)


@dataclass(frozen=True)
class Stage:
    model: RemoteLanguageModel
    paced: EngineProcess
    http: httpx.AsyncClient


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """Two replicas: a paced engine, asked first, and a Slipstream server that knows the answer."""
    async with _servers(tmp_path) as (paced, second, http):
        urls = (f"{paced.base}/v1", f"{second}/v1")
        model = RemoteLanguageModel(RemoteEngineSettings(base_urls=urls, model="slipstream", health_s=600))
        await model.warm_up()
        model.replicas[1].requests += 1  # so that the other is asked first
        yield Stage(model, paced, http)
        await model.close()


@asynccontextmanager
async def _servers(data: Path) -> AsyncIterator[tuple[EngineProcess, str, httpx.AsyncClient]]:
    async with (
        httpx.AsyncClient(trust_env=False) as http,
        engines(1, http) as [paced],
        slipstream_server(data, FAKE_MODELS) as running,
    ):
        document = {"id": "leave.md", "text": "Every employee has 28 days of leave a year."}
        (await http.post(f"{running.base}/v1/documents", json=document)).raise_for_status()
        yield paced, running.base, http


async def read(model: RemoteLanguageModel, into: list[Token]) -> None:
    async with model.generate(MESSAGES, Sampling(max_tokens=60), Call("tenant", Deadline.after(30))) as stream:
        async for tokens in stream:
            into += tokens


async def test_killed_before_the_first_token_the_other_answers(stage: Stage) -> None:
    got: list[Token] = []
    task = asyncio.create_task(read(stage.model, got))
    await (await busy([stage.paced], stage.http)).kill()
    await task
    assert "28 days" in "".join(token.text for token in got)
    assert got[-1].finish_reason == "stop"
    assert got[-1].usage is not None
    assert stage.model.figures().failovers == 1


async def test_killed_within_an_answer_is_an_error(stage: Stage) -> None:
    got: list[Token] = []
    task = asyncio.create_task(read(stage.model, got))
    while not got:  # noqa: ASYNC110 (a list is polled)
        await asyncio.sleep(0.005)
    await stage.paced.kill()
    with pytest.raises(Unavailable) as caught:
        await task
    assert caught.value.code.startswith("engine_")
    assert all(token.finish_reason is None for token in got)
    assert stage.model.replicas[0].failures == 1
