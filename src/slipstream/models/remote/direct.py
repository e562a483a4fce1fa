"""The straight way to a replica: connections kept and used again."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from urllib.parse import urlsplit

from slipstream.call import Clock
from slipstream.models.remote.connection import Connection
from slipstream.models.remote.faults import Fault, unreachable
from slipstream.settings import RemoteEngineSettings

_KEPT_S = 4.0
"""Some servers close a connection that has been idle for five seconds, and a request may meet that."""
_MOST_KEPT = 64


class Direct:
    """Implements `Opener`."""

    def __init__(self, base_url: str, settings: RemoteEngineSettings, clock: Clock = time.monotonic) -> None:
        parts = urlsplit(base_url)
        secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if secure else 80)
        self._tls = ssl.create_default_context() if secure else None
        self._connect_s = settings.connect_s
        self._clock = clock
        self._kept: list[tuple[float, Connection]] = []
        key = settings.api_key
        lines = (
            f"POST {parts.path}/chat/completions HTTP/1.1",
            f"host: {parts.netloc}",
            "user-agent: slipstream",
            "accept: text/event-stream",
            "content-type: application/json",
            *([] if key is None else [f"authorization: Bearer {key.get_secret_value().strip()}"]),
            "",
        )
        self._head = "\r\n".join(lines).encode("latin-1")

    async def open(self, body: bytes, request_id: str) -> DirectBody:
        """A connection that the server closed while it lay idle is nobody's fault: a fresh one follows it."""
        head = b"%scontent-length: %d\r\nx-request-id: %s\r\n\r\n" % (self._head, len(body), request_id.encode())
        while (kept := self._take()) is not None:
            try:
                return await self._exchange(kept, head + body)
            except Fault:
                if kept.heard:
                    raise
        return await self._exchange(await self._connect(), head + body)

    def keep(self, connection: Connection) -> None:
        """Takes a connection whose exchange is over, or closes one whose is not."""
        if connection.reusable and len(self._kept) < _MOST_KEPT:
            self._kept.append((self._clock(), connection))
        else:
            connection.close()

    async def close(self) -> None:
        for _, connection in self._kept:
            connection.close()
        self._kept.clear()

    async def _exchange(self, connection: Connection, request: bytes) -> DirectBody:
        try:
            await connection.exchange(request)
        except BaseException:
            connection.close()
            raise
        return DirectBody(connection, self)

    def _take(self) -> Connection | None:
        """The connection that was used last, of those still good."""
        while self._kept:
            since_s, connection = self._kept.pop()
            if connection.reusable and self._clock() - since_s < _KEPT_S:
                return connection
            connection.close()
        return None

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_s):
                _, connection = await loop.create_connection(Connection, self._host, self._port, ssl=self._tls)
        except OSError as error:  # a timeout and a failed handshake are ones too
            raise unreachable() from error
        return connection


class DirectBody:
    """Implements `Body`."""

    __slots__ = ("_connection", "_direct")

    def __init__(self, connection: Connection, direct: Direct) -> None:
        self._connection = connection
        self._direct = direct

    @property
    def status(self) -> int:
        return self._connection.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._connection.headers

    async def read(self) -> bytes:
        return await self._connection.read()

    async def close(self) -> None:
        self._direct.keep(self._connection)
