"""One request at one replica, from its sending to its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from slipstream.call import Call
from slipstream.models.remote.body import Body
from slipstream.models.remote.events import EventReader
from slipstream.models.remote.faults import Fault, cut_short, silent
from slipstream.models.remote.replica import Replica
from slipstream.models.remote.wire import DONE, Chunk, read_chunk
from slipstream.runtime.within import within
from slipstream.settings import RemoteEngineSettings

T = TypeVar("T")

_USAGE_S = 2.0
"""For the usage behind the finish reason: the answer is whole without it."""
_DRAIN_S = 0.2
"""For the bytes behind the last event, after which the connection can be used again."""


class Attempt:
    """`start` waits for the first token, `batches` gives what comes, `close` frees the replica in any case."""

    def __init__(self, replica: Replica, body: bytes, call: Call, settings: RemoteEngineSettings) -> None:
        self.replica = replica
        self.sent_s = call.elapsed_s()
        """Seconds of the call at which the request left."""
        self._body = body
        self._call = call
        self._settings = settings
        self._reader = EventReader()
        self._response: Body | None = None
        self._first: list[Chunk] = []
        self._waiting = self._open = True
        self._finished = self._ended = self._judged = False
        replica.began()
        replica.waiting += 1

    async def start(self) -> None:
        """Sends, and waits until the model has begun. Raises Fault, noted at the replica, and DeadlineExceeded."""
        await self._noted(self._begin, self._settings.first_token_s, "before the first token")
        self._begun()
        self._judged = True
        self.replica.breaker.success()

    async def batches(self) -> AsyncGenerator[list[Chunk], None]:
        """Chunks that came together. Ends behind the finish reason. Raises Fault and DeadlineExceeded."""
        chunks, self._first = self._first, []
        while True:
            if chunks:
                yield chunks
            if self._ended:
                break
            self._call.deadline.check("the answer was being generated")
            if self._finished:
                chunks = await self._last_words()
            else:
                chunks = await self._noted(self._next, self._settings.idle_s, "within an answer")
        await self._drain()

    async def close(self) -> None:
        """Ends the request at the server, if it still runs, by closing the connection."""
        if not self._open:
            return
        self._open = False
        self._begun()
        self.replica.ended()
        if not self._judged:
            self.replica.breaker.abandoned()
        if self._response is not None:
            await self._response.close()

    async def _begin(self) -> None:
        self._response = await self.replica.stream(self._body, self._call.request_id)
        while not (self._ended or any(chunk.alive or chunk.finish_reason for chunk in self._first)):
            self._first += await self._next()

    async def _next(self) -> list[Chunk]:
        """Chunks of the next piece of the body; none when it held no whole event."""
        assert self._response is not None
        piece = await self._response.read()
        events = self._reader.feed(piece) if piece else self._reader.finish()
        chunks = []
        for event in events:
            if event == DONE:
                self._ended = True
                break
            chunk = read_chunk(event)
            self._finished = self._finished or chunk.finish_reason is not None
            chunks.append(chunk)
        self._ended = self._ended or not piece
        if self._ended and not self._finished:
            raise cut_short()
        return chunks

    async def _last_words(self) -> list[Chunk]:
        """What follows the finish reason, if anything does: nothing that goes wrong now spoils the answer."""
        try:
            async with asyncio.timeout(_USAGE_S):
                return await self._next()
        except (TimeoutError, Fault):
            self._ended = True
            return []

    async def _noted(self, work: Callable[[], Awaitable[T]], seconds: float, doing: str) -> T:
        """Work within its time and the deadline; a fault is noted at the replica before it is raised."""
        try:
            return await self._within(work, seconds, doing)
        except Fault as fault:
            self._judged = True
            self.replica.failed(fault)
            raise

    async def _within(self, work: Callable[[], Awaitable[T]], seconds: float, doing: str) -> T:
        deadline = self._call.deadline
        if deadline.remaining_s() <= seconds:
            async with within(deadline, "the answer was being generated"):
                return await work()
        try:
            async with asyncio.timeout(seconds):
                return await work()
        except TimeoutError:
            raise silent(seconds, doing) from None

    async def _drain(self) -> None:
        assert self._response is not None
        with suppress(TimeoutError, Fault):
            async with asyncio.timeout(_DRAIN_S):
                while await self._response.read():
                    pass

    def _begun(self) -> None:
        if self._waiting:
            self._waiting = False
            self.replica.waiting -= 1
