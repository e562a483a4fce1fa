"""The receiving end of one generation: an async iterator fed on its event loop, bounded by the deadline."""

from __future__ import annotations

import asyncio
from collections import deque

from slipstream.call import Deadline
from slipstream.errors import SlipstreamError
from slipstream.types import Token, Tokens


class TokenStream:
    """Tokens in the order they were fed; a reader who lags gets what has gathered as one piece."""

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._arrived: deque[Token | SlipstreamError] = deque()
        self._wake = asyncio.Event()
        self._ended = False

    def feed(self, item: Token | SlipstreamError) -> None:
        """Takes the next piece, or the error that ends the stream. Call it on the stream's event loop."""
        self._arrived.append(item)
        self._wake.set()

    def __aiter__(self) -> TokenStream:
        return self

    async def __anext__(self) -> Tokens:
        """Raises DeadlineExceeded when the deadline comes first, and the error the stream was fed."""
        if self._ended:
            raise StopAsyncIteration
        self._deadline.check("the answer was being generated")
        while not self._arrived:
            await self._wait()
        token = self._take()
        self._ended = token.finish_reason is not None
        return (token,)

    async def _wait(self) -> None:
        self._wake.clear()
        remaining_s = self._deadline.remaining_s()
        try:
            async with asyncio.timeout(None if remaining_s == float("inf") else remaining_s):
                await self._wake.wait()
        except TimeoutError:
            self._deadline.check("the answer was being generated")

    def _take(self) -> Token:
        item = self._arrived.popleft()
        if isinstance(item, SlipstreamError):
            self._ended = True
            raise item
        while self._arrived and isinstance(self._arrived[0], Token):
            last = self._arrived.popleft()
            assert isinstance(last, Token)
            item = Token(item.text + last.text, item.count + last.count, last.finish_reason, last.usage)
        return item
