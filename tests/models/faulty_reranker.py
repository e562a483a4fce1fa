"""A reranking server that misbehaves as told: one answer of a script for each request, the last one repeated."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Asked:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


Answer: TypeAlias = Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class FaultyReranker:
    script: list[Answer]
    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    let_go: asyncio.Event = field(default_factory=asyncio.Event)
    """Ends what hangs, so that the server can be closed."""

    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def was_asked(self, times: int) -> None:
        async with self.changed:
            await self.changed.wait_for(lambda: len(self.asked) >= times)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (asked := await _read(reader)) is not None:
                answer = self.script[min(len(self.asked), len(self.script) - 1)]
                self.asked.append(asked)
                async with self.changed:
                    self.changed.notify_all()
                await answer(asked, writer)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def hangs(self, begun: bytes = b"") -> Answer:
        """Says the beginning and then nothing more, with the connection open."""

        async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
            writer.write(begun)
            await writer.drain()
            await self.let_go.wait()

        return answer


async def _read(reader: asyncio.StreamReader) -> Asked | None:
    head = await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b""
    if not head:
        return None
    first, *lines = head.decode().strip().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    body = await reader.readexactly(int(headers["content-length"]))
    return Asked(first.split(" ")[1], headers, json.loads(body))


@asynccontextmanager
async def faulty_reranker(*script: Answer) -> AsyncIterator[FaultyReranker]:
    made = FaultyReranker(list(script))
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    made.url = f"http://{host}:{port}"
    try:
        yield made
    finally:
        made.let_go.set()
        server.close()
        await server.wait_closed()


def raw(status: str, body: bytes, *headers: str) -> Answer:
    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    return answer


def replies(reply: Any) -> Answer:
    return raw("200 OK", json.dumps(reply).encode(), "content-type: application/json")


def fails(status: str, *headers: str) -> Answer:
    return raw(status, b"sorry", *headers)


async def hangs_up(asked: Asked, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def ranks(asked: Asked, writer: asyncio.StreamWriter) -> None:
    """As TEI does: the score of a text is its length in thousandths."""
    await replies(ranking(asked.body["texts"]))(asked, writer)


def ranking(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Best first, as servers give it: not in the order asked."""
    rows = [{"index": place, "score": len(text) / 1000} for place, text in enumerate(texts)]
    return sorted(rows, key=lambda row: -float(row["score"]))
