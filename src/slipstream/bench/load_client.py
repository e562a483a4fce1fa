"""A load client over raw sockets: cheap enough that the server, not the client, is what a measurement sees."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slipstream.errors import Unavailable

_END_OF_CHUNKS = b"\r\n0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Timing:
    """One request; seconds since it was sent."""

    status: int
    first_byte_s: float
    """First byte of the response's body or head, whichever came first."""
    total_s: float
    bytes: int
    """Head, body and chunk framing."""
    whole: bool = True
    """False for a stream that ended without its [DONE]."""


@dataclass(frozen=True, slots=True)
class Load:
    """One run of many requests."""

    timings: Sequence[Timing]
    wall_s: float

    @property
    def per_second(self) -> float:
        return len(self.timings) / self.wall_s

    def total_ms(self, quantile: float) -> float:
        """Of the requests' whole times; nearest rank."""
        return 1000 * _quantile([timing.total_s for timing in self.timings], quantile)

    def first_byte_ms(self, quantile: float) -> float:
        return 1000 * _quantile([timing.first_byte_s for timing in self.timings], quantile)


async def drive(
    host: str, port: int, path: str, body: object, *, requests: int, connections: int, key: str | None = None
) -> Load:
    """Sends `body` as JSON `requests` times over kept-alive connections, each with one request in flight.

    Raises Unavailable when the server closes a connection.
    """
    request = _request(host, port, path, json.dumps(body).encode(), key)
    left = iter(range(requests))
    timings: list[Timing] = []

    async def use(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in left:
            writer.write(request)
            timings.append(await _response(reader))

    opening = (asyncio.open_connection(host, port, limit=1 << 20) for _ in range(connections))
    opened = await asyncio.gather(*opening)  # all of them first: opening one takes longer than answering on it
    try:
        began = time.perf_counter()
        await asyncio.gather(*(use(reader, writer) for reader, writer in opened))
        return Load(timings, time.perf_counter() - began)
    finally:
        for _, writer in opened:
            writer.close()


async def _response(reader: asyncio.StreamReader) -> Timing:
    began = time.perf_counter()
    data = await reader.read(1 << 18)
    first_byte_s = time.perf_counter() - began
    received = bytearray(data)
    while b"\r\n\r\n" not in received:
        received += await _more(reader)
    head_end = received.index(b"\r\n\r\n") + 4
    headers = _headers(bytes(received[:head_end]))
    length = headers.get(b"content-length")
    while not _complete(received, head_end, length):
        received += await _more(reader)
    total_s = time.perf_counter() - began
    whole = b"text/event-stream" not in headers.get(b"content-type", b"") or b"data: [DONE]" in received[-64:]
    return Timing(int(received[9:12]), first_byte_s, total_s, len(received), whole)


def _complete(received: bytearray, head_end: int, length: bytes | None) -> bool:
    if length is not None:
        return len(received) >= head_end + int(length)
    return received.endswith(_END_OF_CHUNKS)


async def _more(reader: asyncio.StreamReader) -> bytes:
    data = await reader.read(1 << 18)
    if not data:
        raise Unavailable("The server closed a connection during the measurement.")
    return data


def _headers(head: bytes) -> Mapping[bytes, bytes]:
    lines = head.split(b"\r\n")[1:]
    return {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}


def _request(host: str, port: int, path: str, body: bytes, key: str | None) -> bytes:
    authorization = f"Authorization: Bearer {key}\r\n" if key else ""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n{authorization}"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _quantile(values: Sequence[float], quantile: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(quantile * len(ordered)))]
