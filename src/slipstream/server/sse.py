"""A server-sent event stream over one exchange: it gathers what is ready and writes it at once."""

from __future__ import annotations

from slipstream.server.exchange import Exchange, Header

_HEADERS: tuple[Header, ...] = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
_GATHER_BYTES = 32_768


class EventStream:
    """The response begins with the first flush, so that a failure before it still gets its own status."""

    __slots__ = ("_exchange", "_gathered", "_size")

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._gathered: list[bytes] = []
        self._size = 0

    def add(self, events: bytes) -> None:
        """Takes encoded events; they leave with the next flush."""
        self._gathered.append(events)
        self._size += len(events)

    @property
    def full(self) -> bool:
        """True when so much has gathered that it should leave although more is ready."""
        return self._size >= _GATHER_BYTES

    async def flush(self) -> None:
        """Writes what has gathered. Waits while the client reads too slowly."""
        if self._size:
            await self._send(more=True)

    async def close(self) -> None:
        """Writes what has gathered and ends the response."""
        await self._send(more=False)

    async def _send(self, more: bool) -> None:
        exchange = self._exchange
        if not exchange.status:
            await exchange.start(200, _HEADERS)
        data = b"".join(self._gathered)
        self._gathered.clear()
        self._size = 0
        await exchange.send({"type": "http.response.body", "body": data, "more_body": more})


def error_event(body: bytes) -> bytes:
    """A failure after the stream began. OpenAI's clients raise APIError for it; nothing may follow it."""
    return b"event: error\ndata: " + body + b"\n\n"
