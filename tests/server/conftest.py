"""A scripted service behind the real application: in process, and on a real socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import pytest

from slipstream.server.app import create_app
from slipstream.server.fake import ScriptedService
from slipstream.server.run import Server
from slipstream.settings import Settings


@pytest.fixture
def settings() -> Settings:
    return Settings()


@pytest.fixture
def service(settings: Settings) -> ScriptedService:
    service = ScriptedService(settings)
    service.readiness.warmed()
    return service


@pytest.fixture
async def http(service: ScriptedService) -> AsyncIterator[httpx.AsyncClient]:
    """In process; the lifespan does not run."""
    transport = httpx.ASGITransport(create_app(service))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


@dataclass(frozen=True)
class Served:
    host: str
    port: int
    server: Server
    finished: asyncio.Task[None]

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"


@pytest.fixture
async def served(service: ScriptedService) -> AsyncIterator[Served]:
    """On a loopback port that the system chose."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = Server(create_app(service), service.settings.server, grace_s=5)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    yield Served("127.0.0.1", listener.getsockname()[1], server, task)
    server.should_exit = True
    await task
