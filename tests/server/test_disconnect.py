"""A client that leaves: the work stops at once, streamed or not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from slipstream.call import Call
from slipstream.server.fake import CITATION, ScriptedService
from slipstream.types import Event, Found, Query, Question, Token

pytestmark = pytest.mark.anyio


class Endless:
    """A model that never ends by itself."""

    def __init__(self) -> None:
        self.running = asyncio.Event()
        self.stopped = asyncio.Event()
        self.more = asyncio.Event()
        self.tokens = 0

    async def __call__(self, question: Question, call: Call) -> AsyncIterator[Event]:
        try:
            yield Found(Query("q", "en"), (CITATION,))
            for _ in range(5):
                self.tokens += 1
                yield (Token("word "),)
            self.running.set()
            await self.more.wait()
        finally:
            self.stopped.set()


@pytest.mark.parametrize("stream", [True, False])
async def test_leaving_cancels(served: Any, service: ScriptedService, stream: bool) -> None:
    service.script = model = Endless()
    reader, writer = await asyncio.open_connection(served.host, served.port)
    writer.write(request(stream))
    await model.running.wait()
    if stream:
        await reader.readuntil(b"word ")
    writer.close()
    await asyncio.wait_for(model.stopped.wait(), 1)
    await until(lambda: service.running == 0)
    assert b'status="499"' in service.metrics.render()


async def test_two_requests_run_side_by_side(served: Any, service: ScriptedService) -> None:
    first = service.script = Endless()
    _, one = await asyncio.open_connection(served.host, served.port)
    one.write(request(stream=True))
    await first.running.wait()
    second = service.script = Endless()
    _, two = await asyncio.open_connection(served.host, served.port)
    two.write(request(stream=True))
    await asyncio.wait_for(second.running.wait(), 1)
    assert service.running == 2
    one.close()
    await asyncio.wait_for(first.stopped.wait(), 1)
    assert not second.stopped.is_set()
    two.close()
    await asyncio.wait_for(second.stopped.wait(), 1)


async def test_leaving_within_the_body_reaches_no_handler(served: Any, service: ScriptedService) -> None:
    _, writer = await asyncio.open_connection(served.host, served.port)
    writer.write(request(stream=True)[:-10])
    await writer.drain()
    writer.close()
    await until(lambda: b'status="499"' in service.metrics.render())
    assert not service.questions


async def until(condition: Any) -> None:
    async with asyncio.timeout(2):
        while not condition():  # noqa: ASYNC110 (no event tells that the server has noticed)
            await asyncio.sleep(0)


def request(stream: bool) -> bytes:
    body = json.dumps({"messages": [{"role": "user", "content": "Go on"}], "stream": stream}).encode()
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
