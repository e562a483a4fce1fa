"""An OpenAI-compatible server that fails in the ways real ones do, on a real socket and on command."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from slipstream.call import Call, Deadline
from slipstream.models.fake_llm import FakeLanguageModel
from slipstream.types import Message, Sampling, Token

Behaviour: TypeAlias = Literal[
    "well",
    "held_first",  # no byte of the body until `release` is set
    "half_open",  # the request is read and never answered
    "stall",  # two tokens, then silence until `release` is set
    "death",  # two tokens, then the connection is reset
    "death_first",  # the connection is reset before any byte
    "death_after_finish",  # everything but the usage
    "eof",  # two tokens, then an orderly end of the body
    "not_json",
    "wrong_json",
    "html",
    "error_event",  # two tokens, then an error as vLLM sends it
    "abort",  # two tokens, then finish_reason "abort"
    "busy",  # 429 with Retry-After
    "busy_unsaid",  # 503 without
    "broken",  # 500
    "wrong_key",  # 401
    "too_long",  # 400 about the context
    "no_usage",
    "no_finish",  # [DONE] without a finish reason
    "comments",
    "split",  # one byte a segment
    "crlf",
    "together",  # all events in one segment
]


@dataclass
class FaultServer:
    """Behaves as the next of `script` says, and well when that is empty."""

    model: FakeLanguageModel
    name: str = "fake"
    owned_by: str = "vllm"
    script: deque[Behaviour] = field(default_factory=deque)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    """Set whenever a generation comes in."""
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client closes while it is being served."""
    healthy: bool = True
    retry_after: str = "1"
    cached_tokens: int = 0
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    connections: int = 0
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while (request := await _request(reader)) is not None:
                path, headers, body = request
                self.keys.append(headers.get("authorization", ""))
                if path == "/v1/chat/completions":
                    await self._until_left(self._chat(body, writer), reader)
                else:
                    _respond(writer, *self._ask(path, body))
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def _ask(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if path == "/v1/models":
            card = {"id": self.name, "owned_by": self.owned_by, "max_model_len": self.model.context_tokens}
            return 200, {"data": [card]}
        if path == "/tokenize":
            if "messages" in body:
                return 200, {"count": self.model.count_tokens(_messages(body))}
            return 200, {"count": self.model.count_text_tokens(body["prompt"])}
        if path == "/health":
            return (200, {}) if self.healthy else (503, {})
        return 404, {"error": "no such path"}

    async def _until_left(self, serving: Any, reader: asyncio.StreamReader) -> None:
        """Serves until the client closes: it sends nothing while it waits."""
        task = asyncio.create_task(serving)
        gone = asyncio.create_task(reader.read(1))
        try:
            await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                self.left.set()
                task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        finally:
            for one in (task, gone):
                one.cancel()
                with suppress(asyncio.CancelledError, ConnectionError):
                    await one

    async def _chat(self, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        self.requests.append(body)
        self.arrived.set()
        how = self.script.popleft() if self.script else "well"
        if how == "half_open":
            await asyncio.Event().wait()
        if how == "death_first":
            writer.transport.abort()
            return
        if how in _REFUSALS:
            status, said = _REFUSALS[how]
            extra = {"retry-after": self.retry_after} if how == "busy" else {}
            _respond(writer, status, {"error": {"message": said}}, extra)
            return
        if how == "html":
            _respond(writer, 200, "<html>", {"content-type": "text/html"})
            return
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        await writer.drain()
        await self._events(how, body, writer)

    async def _events(self, how: Behaviour, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        out = _Out(how, writer)
        if how == "held_first":
            await self.release.wait()
        await out.event(_delta({"role": "assistant", "content": ""}))
        number = 0
        async for token in self._tokens(body):
            if number == 2 and how in _AFTER_TWO:
                await self._fail(how, out, writer)
                return
            number += 1
            if token.text:
                await out.event(_delta({"content": token.text}))
            if token.finish_reason is not None:
                await self._finish(how, token, out, writer)

    async def _fail(self, how: Behaviour, out: _Out, writer: asyncio.StreamWriter) -> None:
        match how:
            case "stall":
                await self.release.wait()
            case "death":
                writer.transport.abort()
            case "eof":
                await out.end()
            case "not_json":
                await out.raw(b"data: {half\n\n")
            case "wrong_json":
                await out.event({"object": "chat.completion.chunk", "choices": [{"delta": {"content": 7}}]})
            case "error_event":
                await out.event({"error": {"message": "engine core died, key sk-test", "code": 500}})
                await out.done()
            case "abort":
                await out.event(_delta({}, "abort"))
                await out.done()

    async def _finish(self, how: Behaviour, token: Token, out: _Out, writer: asyncio.StreamWriter) -> None:
        if how != "no_finish":
            await out.event(_delta({}, token.finish_reason))
        if how == "death_after_finish":
            writer.transport.abort()
            return
        if how not in {"no_usage", "no_finish"} and token.usage is not None:
            usage = {
                "prompt_tokens": token.usage.prompt_tokens,
                "completion_tokens": token.usage.completion_tokens,
                "prompt_tokens_details": {"cached_tokens": self.cached_tokens},
            }
            await out.event({"choices": [], "usage": usage})
        await out.done()

    async def _tokens(self, body: dict[str, Any]) -> AsyncIterator[Token]:
        stop = body.get("stop", [])
        sampling = Sampling(max_tokens=body["max_tokens"], stop=tuple(stop))
        async with self.model.generate(_messages(body), sampling, Call("server", Deadline(None))) as stream:
            async for tokens in stream:
                for token in tokens:
                    yield token


class _Out:
    """Writes events as the behaviour wants them on the wire."""

    def __init__(self, how: Behaviour, writer: asyncio.StreamWriter) -> None:
        self._how = how
        self._writer = writer
        self._gathered = b""

    async def event(self, data: Any) -> None:
        text = f"data: {json.dumps(data, ensure_ascii=False)}\n\n"
        if self._how == "comments":
            text = f": keep-alive\n\n{text}:\n"
        if self._how == "crlf":
            text = text.replace("\n", "\r\n")
        await self.raw(text.encode())

    async def raw(self, data: bytes) -> None:
        if self._how == "together":
            self._gathered += data
            return
        for piece in [data[i : i + 1] for i in range(len(data))] if self._how == "split" else [data]:
            self._writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await self._writer.drain()
            await asyncio.sleep(0)

    async def done(self) -> None:
        self._gathered, gathered, self._how = b"", self._gathered, "well" if self._how == "together" else self._how
        await self.raw(gathered + b"data: [DONE]\n\n")
        await self.end()

    async def end(self) -> None:
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()


_AFTER_TWO = frozenset({"stall", "death", "eof", "not_json", "wrong_json", "error_event", "abort"})
_REFUSALS: dict[Behaviour, tuple[int, str]] = {
    "busy": (429, "slow down"),
    "busy_unsaid": (503, "loading"),
    "broken": (500, "oops"),
    "wrong_key": (401, "Incorrect API key provided: sk-test"),
    "too_long": (400, "This model's maximum context length is 4096 tokens."),
}


def _delta(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
    }


def _messages(body: dict[str, Any]) -> tuple[Message, ...]:
    return tuple(Message(message["role"], message["content"]) for message in body["messages"])


async def _request(reader: asyncio.StreamReader) -> tuple[str, dict[str, str], dict[str, Any]] | None:
    """Path, headers and JSON body of the next request; None when the client is done."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    line, *rest = head.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in rest)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return line.split()[1], headers, json.loads(body) if body else {}


def _respond(writer: asyncio.StreamWriter, status: int, body: Any, extra: dict[str, str] | None = None) -> None:
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    headers = {"content-type": "application/json", "content-length": str(len(data)), **(extra or {})}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"HTTP/1.1 {status} X\r\n{lines}\r\n".encode() + data)


@asynccontextmanager
async def fault_server(
    *script: Behaviour, model: FakeLanguageModel | None = None, **options: Any
) -> AsyncIterator[FaultServer]:
    """On a loopback port that the system chose."""
    server = FaultServer(model or FakeLanguageModel(tokens=8, token_s=0.001), script=deque(script), **options)
    listener = await asyncio.start_server(server.handle, "127.0.0.1", 0)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        server.release.set()
        listener.close()
        listener.close_clients() if hasattr(listener, "close_clients") else None
