"""An instant, deterministic encoder without weights: shared words and characters make texts similar."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from slipstream.models.base import TextKind
from slipstream.types import Encoding, Vector

DIMENSIONS = 256
"""Fewer, and unrelated words look alike."""
_PIECE = re.compile(r"[㐀-䶿一-鿿豈-﫿]|[a-z0-9]+(?:[-_.][a-z0-9]+)*|[^\W_]+", re.IGNORECASE)
_HAN = re.compile(r"[㐀-䶿一-鿿豈-﫿]")
_COMMON_HAN = frozenset("的了是在和有不这那个吗呢吧么什怎如何哪为以与及或就都也很")
_LIGHT = 0.2
"""Weight of function words and characters: they say little about the subject."""


class FakeEncoder:
    """Implements models.base.Encoder as a hashed bag of words (English) or of characters and bigrams (Chinese).

    A token is a word or one Chinese character; equal tokens have equal vectors wherever they stand, up to
    the pull of the character before. Texts without any token get one fixed dense vector.
    """

    name = "fake"
    dimensions = DIMENSIONS
    max_tokens = 512

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [sum(1 for _ in _PIECE.finditer(text)) for text in texts]

    async def encode(self, texts: Sequence[str], kind: TextKind) -> list[Encoding]:
        """Queries at once, passages on a thread as a real encoder's: the event loop never computes for long."""
        if kind == "query":
            return [_encode(text) for text in texts]
        return await asyncio.to_thread(lambda: [_encode(text) for text in texts])

    async def warm_up(self) -> None:
        """Nothing to load."""

    async def close(self) -> None:
        """Nothing to free."""


@lru_cache(maxsize=1_024)
def _encode(text: str) -> Encoding:
    pieces = [(match.group().lower(), match.span()) for match in _PIECE.finditer(text)][: FakeEncoder.max_tokens]
    tokens = np.empty((len(pieces), DIMENSIONS), np.float32)
    dense = np.zeros(DIMENSIONS, np.float32)
    for row, (piece, (start, _)) in enumerate(pieces):
        vector = _hashed(piece)
        if row and _HAN.match(piece) and pieces[row - 1][1][1] == start:
            vector = vector + _hashed(pieces[row - 1][0] + piece)
        tokens[row] = _unit(vector)
        dense += _weight(piece) * vector
    offsets = np.array([span for _, span in pieces], np.int32).reshape(-1, 2)
    return Encoding(_unit(dense) if dense.any() else _hashed(""), tokens, offsets)


def _weight(piece: str) -> float:
    light = piece in _COMMON_HAN or (piece.isascii() and piece.isalpha() and len(piece) <= 3)
    return _LIGHT if light else 1.0


@lru_cache(maxsize=65_536)
def _hashed(piece: str) -> Vector:
    """A fixed direction for each piece; those of different pieces are nearly at right angles."""
    digest = hashlib.shake_256(piece.encode("utf-8", "replace")).digest(DIMENSIONS)
    vector = _unit(np.frombuffer(digest, np.uint8).astype(np.float32) - 127.5)
    vector.flags.writeable = False
    return vector


def _unit(vector: Vector) -> Vector:
    unit: Vector = vector / np.linalg.norm(vector)
    return unit
