"""A Slipstream server, or the bare yardstick, as a process of its own, so that load and server do not share a loop."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from slipstream.errors import Unavailable

_START_S = 180.0
_STOP_S = 20.0

FAKE_MODELS = {
    "SLIPSTREAM_MODELS__ENCODER": "fake",
    "SLIPSTREAM_MODELS__SMALL": "fake",
    "SLIPSTREAM_DATA__STORE": "memory",
}
"""The product with its shipped fakes: what is left is its own overhead."""


@dataclass(frozen=True, slots=True)
class Running:
    host: str
    port: int
    pid: int

    @property
    def base(self) -> str:
        return f"http://{self.host}:{self.port}"


@asynccontextmanager
async def slipstream_server(data: Path, environment: Mapping[str, str]) -> AsyncIterator[Running]:
    """`slipstream serve` on a free port, ready; ended when the context closes."""
    port = _free_port()
    own = {
        "SLIPSTREAM_CACHE__MODE": "off",  # a measurement asks the same again and again, and wants it done each time
        "SLIPSTREAM_DATA__DIR": str(data),
        "SLIPSTREAM_SERVER__PORT": str(port),
        **environment,
    }
    command = [sys.executable, "-m", "slipstream.cli", "serve"]
    async with _process(command, own, data / "server.log", port, "/readyz") as running:
        yield running


@asynccontextmanager
async def bare_server(chunks: Path, log: Path) -> AsyncIterator[Running]:
    """A bare Starlette endpoint that streams the bytes in `chunks`, one event a write."""
    port = _free_port()
    command = [sys.executable, "-m", "slipstream.bench.serve_bare", str(chunks), str(port)]
    async with _process(command, {}, log, port, "/") as running:
        yield running


@asynccontextmanager
async def _process(
    command: Sequence[str], environment: Mapping[str, str], log: Path, port: int, probe: str
) -> AsyncIterator[Running]:
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *command, env={**os.environ, **environment}, stdout=output, stderr=output, cwd=log.parent
        )
        try:
            await _until_up(process, f"http://127.0.0.1:{port}{probe}", log)
            yield Running("127.0.0.1", port, process.pid)
        finally:
            if process.returncode is None:
                process.terminate()
                try:
                    await asyncio.wait_for(process.wait(), _STOP_S)
                except TimeoutError:
                    process.kill()
                    await process.wait()


async def _until_up(process: asyncio.subprocess.Process, url: str, log: Path) -> None:
    loop = asyncio.get_running_loop()
    until = loop.time() + _START_S
    async with httpx.AsyncClient(trust_env=False) as http:
        while loop.time() < until:
            if process.returncode is not None:
                raise Unavailable(f"The server ended while starting: {log.read_text(errors='replace')[-800:]}")
            try:
                if (await http.get(url)).status_code != httpx.codes.SERVICE_UNAVAILABLE:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.05)
    raise Unavailable(f"The server was not ready within {_START_S:.0f} s.")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
