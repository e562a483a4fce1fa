"""Both ways to a replica read the same, and the straight one knows HTTP's corners."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from slipstream.errors import Unavailable
from slipstream.models.remote.body import Body, Opener
from slipstream.models.remote.direct import Direct
from slipstream.models.remote.faults import Fault
from slipstream.models.remote.proxied import Proxied, has_proxy
from slipstream.settings import RemoteEngineSettings

pytestmark = pytest.mark.anyio

CHUNKED = b"HTTP/1.1 200 OK\r\nX-Many: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"
KNOWN = b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\nx-many: a\r\n\r\nhello world"
UNTIL_EOF = b"HTTP/1.1 200 OK\r\nx-many: a\r\nconnection: close\r\n\r\nhello world"


class Said:
    """Answers every request with the same bytes."""

    def __init__(self, answer: bytes, close: bool = False) -> None:
        self.answer = answer
        self.close = close
        self.connections = 0
        self.heads: list[bytes] = []
        self.port = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                await reader.readexactly(2)
                writer.write(self.answer)
                await writer.drain()
                if self.close:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def saying(answer: bytes, close: bool = False) -> AsyncIterator[Said]:
    said = Said(answer, close)
    server = await asyncio.start_server(said.handle, "127.0.0.1", 0)
    said.port = server.sockets[0].getsockname()[1]
    try:
        yield said
    finally:
        server.close()


@asynccontextmanager
async def way(kind: str, port: int, connect_s: float = 2.0) -> AsyncIterator[Opener]:
    url = f"http://127.0.0.1:{port}/v1"
    async with httpx.AsyncClient(trust_env=False) as http:
        settings = RemoteEngineSettings(base_urls=(url,), connect_s=connect_s)
        opener: Opener = Direct(url, settings) if kind == "direct" else Proxied(url, http)
        yield opener
        await opener.close()


async def whole(body: Body) -> bytes:
    read = b""
    while piece := await body.read():
        read += piece
    await body.close()
    return read


@pytest.mark.parametrize("kind", ["direct", "proxied"])
@pytest.mark.parametrize(("answer", "close"), [(CHUNKED, False), (KNOWN, False), (UNTIL_EOF, True)])
async def test_bodies_of_every_length(kind: str, answer: bytes, close: bool) -> None:
    async with saying(answer, close) as said, way(kind, said.port) as opener:
        for _ in range(3):
            body = await opener.open(b"{}", "req_1")
            assert (body.status, body.headers["x-many"]) == (200, "a")
            assert await whole(body) == b"hello world"
    assert said.connections == (3 if close else 1)
    assert b"req_1" in said.heads[0]


@pytest.mark.parametrize("kind", ["direct", "proxied"])
@pytest.mark.parametrize("answer", [CHUNKED[:-9], KNOWN[:-3], b"HTTP/1.1 200 OK\r\n", b"SSH-2.0-OpenSSH_9.2\r\n", b""])
async def test_an_answer_that_breaks_off_is_a_fault(kind: str, answer: bytes) -> None:
    async with saying(answer, close=True) as said, way(kind, said.port) as opener:
        with pytest.raises(Fault) as caught:
            await whole(await opener.open(b"{}", "req_1"))
    assert isinstance(caught.value.error, Unavailable)


@pytest.mark.parametrize("kind", ["direct", "proxied"])
async def test_nobody_there_is_certain(kind: str) -> None:
    async with saying(KNOWN) as said:
        port = said.port
    async with way(kind, port) as opener:
        with pytest.raises(Fault) as caught:
            await opener.open(b"{}", "req_1")
    assert caught.value.certain


async def test_an_interim_response_is_passed_over() -> None:
    async with saying(b"HTTP/1.1 100 Continue\r\n\r\n" + KNOWN) as said, way("direct", said.port) as opener:
        body = await opener.open(b"{}", "req_1")
        assert body.status == 200
        assert await whole(body) == b"hello world"


async def test_a_reader_who_lags_holds_the_server_back() -> None:
    long = b"x" * (4 << 20)
    head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(long)
    async with saying(head + long) as said, way("direct", said.port) as opener:
        body = await opener.open(b"{}", "req_1")
        sizes = []
        while piece := await body.read():
            sizes.append(len(piece))
            await asyncio.sleep(0)
        await body.close()
    assert sum(sizes) == len(long)
    assert max(sizes) <= (1 << 18) + (1 << 18)


async def test_bytes_that_nobody_asked_for_end_a_kept_connection() -> None:
    async with saying(KNOWN + b"HTTP/1.1 200 OK\r\n") as said, way("direct", said.port) as opener:
        for _ in range(2):
            assert await whole(await opener.open(b"{}", "req_1")) == b"hello world"
    assert said.connections == 2


def test_which_addresses_go_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    assert not has_proxy("https://api.example.com/v1")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "gpu1,.internal")
    assert has_proxy("https://api.example.com/v1")
    assert not has_proxy("http://api.example.com/v1")
    assert not has_proxy("https://gpu1:8000/v1")
    assert not has_proxy("https://a.internal/v1")
