"""Paced engines as processes that a measurement kills and brings back."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import httpx

from slipstream.errors import Unavailable

_START_S = 60.0
_LOOK_S = 0.005


class EngineProcess:
    """One engine on a port of its own, which it keeps when it is brought back."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = int(listener.getsockname()[1])
        self._process: asyncio.subprocess.Process | None = None

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self, http: httpx.AsyncClient) -> None:
        """Raises Unavailable when it is not up in time."""
        command = [sys.executable, "-m", "slipstream.bench.serve_engine", str(self.port)]
        self._process = await asyncio.create_subprocess_exec(*command)
        async with asyncio.timeout(_START_S):
            while await self.running(http) is None:
                if self._process.returncode is not None:
                    raise Unavailable("A paced engine ended while it started.")
                await asyncio.sleep(10 * _LOOK_S)

    async def running(self, http: httpx.AsyncClient) -> int | None:
        """How many requests it works on; None when it is not there."""
        try:
            return int((await http.get(f"{self.base}/load")).json()["running"])
        except httpx.TransportError:
            return None

    async def kill(self) -> None:
        """As kill -9 does."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()


@asynccontextmanager
async def engines(count: int, http: httpx.AsyncClient) -> AsyncIterator[Sequence[EngineProcess]]:
    """So many, all up."""
    made = [EngineProcess() for _ in range(count)]
    try:
        await asyncio.gather(*(engine.start(http) for engine in made))
        yield made
    finally:
        await asyncio.gather(*(engine.kill() for engine in made))


async def busy(made: Sequence[EngineProcess], http: httpx.AsyncClient) -> EngineProcess:
    """The first engine that works on something."""
    while True:
        for engine in made:
            if await engine.running(http):
                return engine
        await asyncio.sleep(_LOOK_S)
