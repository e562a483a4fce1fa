"""The load client counts what a server really sends."""

from __future__ import annotations

import asyncio
import socket

import pytest
import uvicorn

from slipstream.bench.bare_app import PATH, bare_app
from slipstream.bench.load_client import drive
from slipstream.errors import Unavailable

pytestmark = pytest.mark.anyio


async def test_every_request_is_timed_to_its_last_byte() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    config = uvicorn.Config(bare_app([b"data: a\n\n", b"data: b\n\n"]), log_config=None, access_log=False)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    load = await drive("127.0.0.1", port, PATH, {"any": "thing"}, requests=20, connections=3)
    wrong = await drive("127.0.0.1", port, "/nowhere", {}, requests=1, connections=1)
    server.should_exit = True
    await task
    assert [timing.status for timing in load.timings] == [200] * 20
    assert len({timing.bytes for timing in load.timings}) == 1
    assert all(0 < timing.first_byte_s <= timing.total_s for timing in load.timings)
    assert 0 < load.first_byte_ms(0.5) <= load.total_ms(0.99)
    assert wrong.timings[0].status == 404


async def test_a_server_that_hangs_up_is_reported() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(Unavailable):
            await drive("127.0.0.1", port, "/", {}, requests=1, connections=1)
