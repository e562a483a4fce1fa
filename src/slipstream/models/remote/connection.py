"""One HTTP/1.1 connection to an engine, parsed in C: a general client spends ten times as long on every token."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import cast

import httptools

from slipstream.models.remote.faults import Fault, broken

_MOST_GATHERED_BYTES = 1 << 18
"""Beyond it the server is made to wait for the reader."""


class Connection(asyncio.Protocol):
    """Carries one exchange at a time: `exchange`, then `read` until it gives nothing."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        """By lower-case name; the last of several counts."""
        self.heard = False
        """Any byte of the response has come."""
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0
        self._begun = self._complete = self._closed = self._paused = False
        self._keeps = False

    @property
    def reusable(self) -> bool:
        """The exchange is over, and another may follow."""
        return self._complete and self._keeps and not self._closed and not self._gathered

    async def exchange(self, request: bytes) -> None:
        """Sends, and waits for the head of the response. Raises Fault."""
        assert self._transport is not None
        self.status, self.headers, self.heard = 0, {}, False
        self._begun = self._complete = self._keeps = False
        self._parser = httptools.HttpResponseParser(self)
        self._transport.write(request)
        while not self._begun:
            await self._more()

    async def read(self) -> bytes:
        """What has come of the body since; empty at its end. Raises Fault when it does not come to one."""
        while not self._gathered:
            if self._complete:
                return b""
            await self._more()
        data = self._gathered[0] if len(self._gathered) == 1 else b"".join(self._gathered)
        self._gathered.clear()
        self._gathered_bytes = 0
        if self._paused and self._transport is not None and not self._closed:
            self._paused = False
            self._transport.resume_reading()
        return data

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    async def _more(self) -> None:
        if self._closed:
            raise self._broken()
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _broken(self) -> Fault:
        return broken("broke the connection" if self.heard else "closed the connection without an answer")

    def _give_up(self) -> None:
        self._closed = True
        self.close()

    def _notify(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # --- asyncio's side ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.heard = True
        if self._parser is None or self._complete:  # nobody asked for it
            self._give_up()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._give_up()
        self._notify()

    def connection_lost(self, exc: Exception | None) -> None:
        endless = self._begun and not {"content-length", "transfer-encoding"} & self.headers.keys()
        self._complete = self._complete or (endless and exc is None)
        self._closed = True
        self._notify()

    # --- the parser's side ---

    def on_message_begin(self) -> None:
        if self._complete:  # a second response to one request
            self._give_up()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._complete:
            return
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        if self._complete:
            return
        self.status = self._parser.get_status_code()
        self._begun = self.status >= HTTPStatus.OK

    def on_body(self, data: bytes) -> None:
        if self._complete:
            return
        self._gathered.append(data)
        self._gathered_bytes += len(data)
        if self._gathered_bytes > _MOST_GATHERED_BYTES and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        assert self._parser is not None
        if self._complete:
            return
        if self._begun:
            self._complete, self._keeps = True, self._parser.should_keep_alive()
        else:  # an interim response, such as 100 Continue
            self.headers = {}
