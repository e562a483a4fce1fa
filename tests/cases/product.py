"""The whole program on a loopback port, over shipped fakes and the embedded store: in this process, or in its own."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from slipstream.bench.process import slipstream_server
from slipstream.build import build
from slipstream.models.fake_llm import FakeLanguageModel
from slipstream.server.app import create_app
from slipstream.server.run import Server
from slipstream.service import Slipstream
from slipstream.settings import AdmissionSettings, AnswerSettings, CacheSettings, DataSettings, ModelsSettings, Settings

CHAT, SEARCH, DOCUMENTS = "/v1/chat/completions", "/v1/search", "/v1/documents"
FAKES_ON_EDGE = {"SLIPSTREAM_MODELS__ENCODER": "fake", "SLIPSTREAM_MODELS__SMALL": "fake"}


@dataclass(frozen=True)
class InProcess:
    """A server on this event loop: what runs inside it can be seen."""

    service: Slipstream
    http: httpx.AsyncClient
    host: str
    port: int


@asynccontextmanager
async def in_process(
    directory: Path,
    model: FakeLanguageModel,
    admission: AdmissionSettings | None = None,
    answering: AnswerSettings | None = None,
) -> AsyncIterator[InProcess]:
    service = build(
        Settings(
            data=DataSettings(dir=directory),
            models=ModelsSettings(encoder="fake", small="fake"),
            admission=admission or AdmissionSettings(),
            answer=answering or AnswerSettings(),
            cache=CacheSettings(mode="off"),
        )
    )
    service.parts.models["small"] = model  # type: ignore[index]
    listener = socket.create_server(("127.0.0.1", 0), backlog=1_024)
    host, port = listener.getsockname()
    server = Server(create_app(service), service.settings.server, grace_s=5)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=f"http://{host}:{port}", timeout=60, trust_env=False, limits=limits) as http:
        try:
            await until(lambda: service.readiness.ready, 60)
            yield InProcess(service, http, host, port)
        finally:
            server.should_exit = True
            await serving


@asynccontextmanager
async def own_process(
    directory: Path, environment: Mapping[str, str] = FAKES_ON_EDGE
) -> AsyncIterator[httpx.AsyncClient]:
    """`slipstream serve`, and a client of it."""
    async with (
        slipstream_server(directory, environment) as running,
        httpx.AsyncClient(base_url=running.base, timeout=120, trust_env=False) as http,
    ):
        yield http


class Gate:
    """A model's clock: `free` sleeps pass at once, the others only when the test opens the gate."""

    def __init__(self, free: int = 0) -> None:
        self._free = free
        self._open = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self._free -= 1
        if self._free < 0:
            await self._open.wait()

    def open(self) -> None:
        self._open.set()


async def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0)


async def put(http: httpx.AsyncClient, name: str, text: str, tenant: str = "default") -> None:
    response = await http.put(f"{DOCUMENTS}/{name}", json={"text": text, "tenant": tenant})
    assert response.status_code in {200, 201}, response.text


async def found(http: httpx.AsyncClient, query: str, mode: str = "hybrid", **fields: Any) -> list[str]:
    """The texts of the passages, best first."""
    response = await http.post(SEARCH, json={"query": query, "mode": mode, **fields})
    assert response.status_code == 200, response.text
    return [item["text"] for item in response.json()["data"]]


def asking(text: str, **fields: Any) -> dict[str, Any]:
    return {"model": "slipstream", "messages": [{"role": "user", "content": text}], **fields}


async def answer(http: httpx.AsyncClient, text: str, **own: Any) -> tuple[str, list[dict[str, Any]]]:
    """The whole answer and its citations."""
    response = await http.post(CHAT, json=asking(text, slipstream=own))
    assert response.status_code == 200, response.text
    body = response.json()
    return body["choices"][0]["message"]["content"], body["slipstream"]["citations"]
