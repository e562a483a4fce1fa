"""The program inside this process, with or without a server in front, for commands that find none running."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from rich.console import Console

from slipstream.build import build
from slipstream.commands.fetching import provisioner
from slipstream.errors import Unavailable
from slipstream.server.app import create_app
from slipstream.server.run import Server
from slipstream.service import Slipstream
from slipstream.settings import Settings

_GRACE_S = 5


@dataclass(frozen=True, slots=True)
class Local:
    base: str
    """URL of the server."""
    service: Slipstream


@asynccontextmanager
async def local_service(settings: Settings, console: Console) -> AsyncIterator[Slipstream]:
    """The program started and warm, without a server in front of it."""
    with _errors_only():
        service = await _built(settings, console)
        try:
            with console.status("Loading …"):
                await service.start()
            yield service
        finally:
            await service.stop()


@asynccontextmanager
async def local_server(settings: Settings, console: Console) -> AsyncIterator[Local]:
    """The program behind a server on a free loopback port, ready."""
    with _errors_only():
        service = await _built(settings, console)
        app = create_app(service)
        settings_here = service.settings.server.model_copy(update={"host": "127.0.0.1", "port": 0})
        server = Server(app, settings_here, grace_s=_GRACE_S)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            running = asyncio.create_task(server.serve(sockets=[listener]))
            try:
                with console.status("Loading and warming the models …"):
                    await _ready(service, running)
                if app.lifespan.failure is not None:
                    raise app.lifespan.failure
                yield Local(f"http://127.0.0.1:{listener.getsockname()[1]}", service)
            finally:
                server.should_exit = True
                await running


@contextmanager
def _errors_only() -> Iterator[None]:
    """The terminal belongs to the command while it runs."""
    logger = logging.getLogger("slipstream")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


async def _ready(service: Slipstream, running: asyncio.Task[None]) -> None:
    settled = asyncio.create_task(service.readiness.settled())
    await asyncio.wait({settled, running}, return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        settled.cancel()
        raise Unavailable("The server did not start.") from running.exception()


async def _built(settings: Settings, console: Console) -> Slipstream:
    """Fetching a model blocks for minutes the first time, so it runs beside the loop."""
    return await asyncio.to_thread(build, settings, provisioner(settings, console))
