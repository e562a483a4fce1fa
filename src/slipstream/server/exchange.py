"""One HTTP exchange: the request read within its limits, the response written once."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Iterable
from typing import TypeAlias

from starlette.types import Message, Receive, Scope, Send

from slipstream.call import Call
from slipstream.errors import InvalidRequest, TooLarge
from slipstream.server.before_wait import BeforeWait
from slipstream.server.disconnect import ClientLeft

Header: TypeAlias = tuple[bytes, bytes]

BODY_IDLE_S = 30.0
"""Longest wait for the next piece of a body."""
JSON_LIMIT_BYTES = 8 << 20
"""Largest JSON body where no document travels in it."""
_MAX_DIGITS = 18
JSON_TYPE = (b"content-type", b"application/json")

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")


class Exchange:
    """What a handler is given. `tenant` is what the API key is bound to; None without keys."""

    __slots__ = (
        "_received_bytes",
        "began_s",
        "call",
        "client_left",
        "headers",
        "receive",
        "request_id",
        "scope",
        "send",
        "status",
        "tenant",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.began_s = time.monotonic()
        self.request_id = self._request_id()
        self.tenant: str | None = None
        self.call: Call | None = None
        """Set once the handler has opened it, for the access log."""
        self.status = 0
        """0 until the response has begun."""
        self.client_left = False
        self._received_bytes = 0

    @property
    def started(self) -> bool:
        return self.status != 0

    @property
    def method(self) -> str:
        return str(self.scope["method"])

    @property
    def path(self) -> str:
        return str(self.scope["path"])

    @property
    def route(self) -> str:
        """The path template that matched, or "unmatched"."""
        route = self.scope.get("route")
        return str(route.path) if route is not None else "unmatched"

    def path_value(self, name: str) -> str:
        return str(self.scope["path_params"][name])

    def header(self, name: bytes) -> str:
        """The value of a header, named in lower case; empty when absent."""
        return self.headers.get(name, b"").decode("latin-1")

    @property
    def media_type(self) -> str:
        return self.header(b"content-type").partition(";")[0].strip().lower()

    def length_bytes(self, limit_bytes: int) -> int:
        """The most that the body may come to: what the request announces, else the limit.

        Raises TooLarge when it announces more than the limit.
        """
        length = self.headers.get(b"content-length", b"")
        if not length.isdigit():
            return limit_bytes
        if len(length) > _MAX_DIGITS or int(length) > limit_bytes:
            raise _too_large(limit_bytes)
        return int(length)

    async def json_body(self, limit_bytes: int = JSON_LIMIT_BYTES) -> bytes:
        """The body of a JSON request, not yet parsed.

        Raises InvalidRequest for another content type, and what `body` raises.
        """
        if self.media_type not in {"", "application/json"}:
            raise InvalidRequest(
                f"The body is {self.media_type}; send JSON with Content-Type: application/json.",
                code="unsupported_media_type",
            )
        return await self.body(limit_bytes)

    async def body(self, limit_bytes: int) -> bytes:
        """The whole body.

        Raises TooLarge as soon as the limit is passed, InvalidRequest when the client stalls, ClientLeft.
        """
        piece = await self.piece(limit_bytes)
        if not piece["more_body"]:
            return bytes(piece["body"])
        pieces = [piece["body"]]
        while piece["more_body"]:
            piece = await self.piece(limit_bytes)
            pieces.append(piece["body"])
        return b"".join(pieces)

    async def piece(self, limit_bytes: int) -> Message:
        """The next piece of the body as an ASGI message, counted against the limit; raises what `body` raises."""
        self.length_bytes(limit_bytes)
        message = await self._next_piece()
        self._received_bytes += len(message["body"])
        if self._received_bytes > limit_bytes:
            raise _too_large(limit_bytes)
        return message

    async def _next_piece(self) -> Message:
        try:
            async with asyncio.timeout(None) as idle:

                async def arm() -> None:  # most bodies are there already, and need no timer
                    idle.reschedule(asyncio.get_running_loop().time() + BODY_IDLE_S)

                message = await BeforeWait(self.receive(), arm)
        except TimeoutError:
            text = f"No byte of the body came for {BODY_IDLE_S:.0f} s."
            raise InvalidRequest(text, code="request_timeout") from None
        if message["type"] == "http.disconnect":
            raise ClientLeft
        return {"type": "http.request", "body": message.get("body", b""), "more_body": message.get("more_body", False)}

    async def respond(self, status: int, body: bytes, headers: Iterable[Header] = (JSON_TYPE,)) -> None:
        """The whole response at once."""
        await self.start(status, [*headers, (b"content-length", str(len(body)).encode())])
        await self.send({"type": "http.response.body", "body": body})

    async def start(self, status: int, headers: Iterable[Header]) -> None:
        self.status = status
        await self.send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [*headers, (b"x-request-id", self.request_id.encode())],
            }
        )

    def _request_id(self) -> str:
        given = self.headers.get(b"x-request-id", b"").decode("latin-1")
        return given if _REQUEST_ID.fullmatch(given) else f"req_{os.urandom(12).hex()}"


def _too_large(limit_bytes: int) -> TooLarge:
    return TooLarge(f"The body is larger than {limit_bytes} bytes, the most that is taken here.")
