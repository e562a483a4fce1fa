"""What the server and the process that holds a Qdrant Edge shard say to each other, and how it is framed."""

from __future__ import annotations

import asyncio
import pickle
import struct
from dataclasses import dataclass
from typing import Any, BinaryIO

from slipstream.errors import SlipstreamError
from slipstream.stores.bm25 import SparseTerms
from slipstream.stores.term_counts import TermTally
from slipstream.types import Passage, Vector

_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class TokenPlace:
    """Where a passage's token vectors lie in the token files."""

    passage_id: str
    file: int
    start: int
    """Byte offset."""
    rows: int


@dataclass(frozen=True, slots=True)
class EdgePoint:
    """A passage as the shard stores it."""

    passage: Passage
    dense: Vector
    terms: SparseTerms
    place: TokenPlace


@dataclass(frozen=True, slots=True)
class StoredPoint:
    """A passage as an export takes it out of the shard: without its terms, which follow from its text."""

    passage: Passage
    dense: Vector
    place: TokenPlace


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a scan; `next_id` None ends it."""

    points: list[Passage] | list[TokenPlace] | list[StoredPoint]
    next_id: str | None


@dataclass(frozen=True, slots=True)
class TallyPage:
    """Terms of part of a scan; `next_id` None ends it."""

    tallies: list[TermTally]
    next_id: str | None


@dataclass(frozen=True, slots=True)
class EdgeCounts:
    points: int
    indexed: int
    segments: int


@dataclass(frozen=True, slots=True)
class Request:
    number: int
    operation: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Reply:
    number: int
    value: Any = None
    error: SlipstreamError | None = None
    detail: str = ""
    """What the engine said, for the log: it may name paths, and the error goes to clients."""


def pack(message: Request | Reply) -> bytes:
    body = pickle.dumps(message, protocol=5)
    return _LENGTH.pack(len(body)) + body


def read_request(stream: BinaryIO) -> Request | None:
    """The next request, or None when the other side is gone."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    body = stream.read(length)
    if len(body) < length:
        return None
    request: Request = pickle.loads(body)  # noqa: S301  written by our own parent over a private pipe
    return request


async def read_reply(stream: asyncio.StreamReader) -> Reply:
    """The next reply. Raises asyncio.IncompleteReadError when the other side is gone."""
    (length,) = _LENGTH.unpack(await stream.readexactly(_LENGTH.size))
    reply: Reply = pickle.loads(await stream.readexactly(length))  # noqa: S301  written by our own child over a private pipe
    return reply
