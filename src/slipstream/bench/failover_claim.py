"""G5: an engine that dies before the first token is replaced unseen; one that dies after it ends in an error event."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from slipstream.bench.claims import Bar, Claim, Finding, Say, Side
from slipstream.bench.engine_process import EngineProcess, busy, engines
from slipstream.bench.process import FAKE_MODELS, slipstream_server
from slipstream.commands.client import Reply, ask
from slipstream.errors import SlipstreamError
from slipstream.settings import Settings

REPEATS = 5
_DOCUMENT = {"id": "leave.md", "text": "Every employee has 28 days of leave a year. 每位员工每年有28天年假。"}
_QUESTION = "How many days of leave does every employee have?"
_TOKENS = 60


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the client saw of one answer."""

    reply: Reply | None
    error: SlipstreamError | None
    seconds: float
    """From its sending, or from the kill when there was an error."""

    @property
    def whole(self) -> bool:
        return self.reply is not None and bool(self.reply.text)

    @property
    def said_so(self) -> bool:
        """An error event that tells of the engine."""
        return self.error is not None and self.error.code.startswith("engine_")


@dataclass(frozen=True, slots=True)
class _Stage:
    """Two engines behind one server."""

    engines: tuple[EngineProcess, ...]
    server: httpx.AsyncClient
    direct: httpx.AsyncClient


async def measure(settings: Settings, say: Say) -> Finding:
    undisturbed, before, within = [], [], []
    async with _stage() as stage:
        await _ask(stage)
        for repeat in range(REPEATS):
            say(f"two engines, one killed; repeat {repeat + 1} of {REPEATS}")
            undisturbed.append(await _ask(stage))
            before.append(await _killed_before(stage))
            within.append(await _killed_within(stage))
    unseen = sum(seen.whole for seen in before) / REPEATS
    said = sum(seen.said_so for seen in within) / REPEATS
    silent = sum(seen.reply is not None for seen in within)
    return Finding(
        (
            Side("answer, undisturbed", "s", tuple(seen.seconds for seen in undisturbed)),
            Side("answer, its engine killed before the first token", "s", tuple(seen.seconds for seen in before)),
            Side("from kill to error event, killed within the answer", "s", tuple(seen.seconds for seen in within)),
        ),
        (
            Bar("killed before the first token: whole answers", unseen, "of all", ">=", 1.0),
            Bar("killed within an answer: error events", said, "of all", ">=", 1.0),
            Bar("killed within an answer: ended as if whole", float(silent), "answers", "<=", 0.0),
        ),
        "engines are processes that stream at a fixed pace and are ended by SIGKILL; the server and its wire are real",
    )


@asynccontextmanager
async def _stage() -> AsyncIterator[_Stage]:
    with tempfile.TemporaryDirectory() as data:
        async with httpx.AsyncClient(trust_env=False) as direct, engines(2, direct) as made:
            urls = [f"{engine.base}/v1" for engine in made]
            remote = {"base_urls": urls, "health_s": 0.2}
            environment = {**FAKE_MODELS, "SLIPSTREAM_ENGINES__SMALL": json.dumps(remote)}
            async with slipstream_server(Path(data), environment) as running, _client(running.base) as server:
                (await server.post("/v1/documents", json=_DOCUMENT)).raise_for_status()
                yield _Stage(tuple(made), server, direct)


def _client(base_url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=base_url, trust_env=False, timeout=30)


async def _ask(stage: _Stage) -> _Seen:
    began_s = time.perf_counter()
    reply = await ask(stage.server, _QUESTION, max_tokens=_TOKENS)
    return _Seen(reply, None, time.perf_counter() - began_s)


async def _killed_before(stage: _Stage) -> _Seen:
    """The engine works on the prompt when it is killed."""
    asking = asyncio.create_task(_outcome(stage))
    engine = await busy(stage.engines, stage.direct)
    await engine.kill()
    seen = await asking
    await engine.start(stage.direct)
    return seen


async def _killed_within(stage: _Stage) -> _Seen:
    """The engine has streamed some words when it is killed."""
    words = asyncio.Event()
    asking = asyncio.create_task(_outcome(stage, words))
    await words.wait()
    engine = await busy(stage.engines, stage.direct)
    killed_s = time.perf_counter()
    await engine.kill()
    seen = await asking
    seconds = time.perf_counter() - killed_s
    await engine.start(stage.direct)
    return _Seen(seen.reply, seen.error, seconds)


async def _outcome(stage: _Stage, words: asyncio.Event | None = None) -> _Seen:
    began_s = time.perf_counter()
    on_text = (lambda _: None) if words is None else (lambda _: words.set())
    try:
        reply = await ask(stage.server, _QUESTION, max_tokens=_TOKENS, on_text=on_text)
    except SlipstreamError as error:
        return _Seen(None, error, time.perf_counter() - began_s)
    return _Seen(reply, None, time.perf_counter() - began_s)


CLAIM = Claim(
    "G5", "An engine that dies before the first token is replaced unseen; one that dies later is told of.", measure, 1
)
