"""The e5-small-q4.bin file: header, unigram vocabulary and four-bit tensors, checked as they are read."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slipstream.errors import DataError
from slipstream.models.bert_graph import BertShape, FourBit
from slipstream.types import Matrix, Vector

_MAGIC = b"E5S1"
_VERSION = 1
_BLOCK = 32
_FLOAT, _FOUR_BIT = 0, 1
_MAX_COUNT = 10_000_000
"""No count in a sound file is larger: vocabularies have 250 thousand pieces."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    pieces: tuple[str, ...]
    scores: tuple[float, ...]
    """Log-probabilities of the unigram model."""
    start: int
    end: int
    padding: int
    unknown: int


@dataclass(frozen=True, slots=True)
class _Tensor:
    kind: int
    count: int
    offset: int
    size: int


class E5File:
    """The file, read whole.

    Raises DataError when it is not such a file, is cut short or contradicts itself.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._bytes = path.read_bytes()
        except OSError as error:
            raise DataError(f"{path} cannot be read ({error.strerror}). Pull the model again.") from None
        self._at = 0
        if self._take(4) != _MAGIC:
            raise self._unusable("it does not begin with E5S1")
        try:
            self.shape = self._read_shape()
            self.vocabulary = self._read_vocabulary()
            self._skip_normalisation()
            self._tensors = self._read_directory()
        except UnicodeDecodeError:
            raise self._unusable("a name in it is not UTF-8") from None

    def vector(self, name: str, length: int) -> Vector:
        """(length,) float32."""
        tensor = self._tensor(name, _FLOAT, length, 4 * length)
        return np.frombuffer(self._bytes, "<f4", tensor.count, tensor.offset)

    def four_bit(self, name: str, rows: int, columns: int) -> FourBit:
        """(rows, columns)"""
        count = rows * columns
        tensor = self._tensor(name, _FOUR_BIT, count, count // _BLOCK * (2 + _BLOCK // 2))
        blocks = np.frombuffer(self._bytes, np.uint8, tensor.size, tensor.offset).reshape(rows, columns // _BLOCK, -1)
        scales = np.ascontiguousarray(blocks[:, :, :2]).view("<f2")[:, :, 0]
        if not np.isfinite(scales).all():
            raise self._unusable(f"tensor {name} has scales that are no numbers")
        return FourBit(np.ascontiguousarray(blocks[:, :, 2:]), scales)

    def matrix(self, name: str, rows: int, columns: int) -> Matrix:
        """(rows, columns) float32."""
        return self.four_bit(name, rows, columns).dense()

    def _read_shape(self) -> BertShape:
        version, hidden, layers, heads, inner, vocabulary, positions, types, epsilon, block = self._unpack("<I7ifi")
        if version != _VERSION:
            raise self._unusable(f"it has version {version}, and only version {_VERSION} is known")
        counts = (hidden, layers, heads, inner, vocabulary, positions, types)
        if not all(0 < count <= _MAX_COUNT for count in counts) or not 0 < epsilon < 1:
            raise self._unusable("its header holds impossible sizes")
        if block != _BLOCK or hidden % block or inner % block or hidden % heads:
            raise self._unusable(f"its sizes do not divide into heads and blocks of {_BLOCK}")
        return BertShape(hidden, layers, heads, inner, vocabulary, positions, types, epsilon)

    def _read_vocabulary(self) -> Vocabulary:
        count, start, end, padding, unknown, size = self._unpack("<5iQ")
        if not 0 < count <= self.shape.vocabulary or not all(0 <= i < count for i in (start, end, padding, unknown)):
            raise self._unusable("its vocabulary does not fit its header")
        ends = self._array("<u4", count + 1)
        scores = self._array("<f4", count)
        blob = self._take(size)
        if (
            ends[0] != 0
            or ends[-1] != size
            or (np.diff(ends.astype(np.int64)) < 0).any()
            or not np.isfinite(scores).all()
        ):
            raise self._unusable("its vocabulary is damaged")
        pieces = tuple(blob[a:b].decode() for a, b in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True))
        return Vocabulary(pieces, tuple(scores.tolist()), start, end, padding, unknown)

    def _skip_normalisation(self) -> None:
        _, size = self._unpack("<iI")
        self._take(size)

    def _read_directory(self) -> dict[str, _Tensor]:
        (count,) = self._unpack("<i")
        tensors = {}
        for _ in range(count):
            (length,) = self._unpack("<H")
            name = self._take(length).decode()
            tensors[name] = _Tensor(*self._unpack("<BIQQ"))
        return tensors

    def _tensor(self, name: str, kind: int, count: int, size: int) -> _Tensor:
        tensor = self._tensors.get(name)
        if tensor is None:
            raise self._unusable(f"tensor {name} is missing")
        if (tensor.kind, tensor.count, tensor.size) != (kind, count, size):
            raise self._unusable(f"tensor {name} has another kind or size than the header asks for")
        if tensor.offset + tensor.size > len(self._bytes):
            raise self._unusable(f"it ends before tensor {name} does")
        return tensor

    def _array(self, kind: str, count: int) -> NDArray[np.generic]:
        return np.frombuffer(self._take(count * np.dtype(kind).itemsize), kind)

    def _unpack(self, layout: str) -> tuple[int, ...]:
        return struct.unpack(layout, self._take(struct.calcsize(layout)))

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._bytes):
            raise self._unusable("it ends too early")
        piece = self._bytes[self._at : end]
        self._at = end
        return piece

    def _unusable(self, why: str) -> DataError:
        return DataError(f"{self._path} is not a usable e5-small-q4.bin: {why}. Pull the model again.")
