"""Reads what a GGUF file says about itself, without its weights.

Source: the GGUF specification (ggml/docs/gguf.md), versions 2 and 3, little-endian.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from slipstream.errors import DataError

MetadataValue: TypeAlias = "str | int | float | bool | tuple[MetadataValue, ...]"

_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9
_KEPT_ARRAY_ITEMS = 64
"""Longer arrays are vocabularies: walked over, not kept."""
_MAX_ENTRIES = 100_000


@dataclass(frozen=True, slots=True)
class GgufHeader:
    architecture: str
    metadata: Mapping[str, MetadataValue]
    """Every key except the vocabulary's arrays."""
    vocabulary_size: int

    def text(self, key: str) -> str:
        value = self.metadata.get(key, "")
        return value if isinstance(value, str) else ""

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.metadata.get(key, ())
        return tuple(item for item in value if isinstance(item, str)) if isinstance(value, tuple) else ()

    def number(self, key: str) -> int | None:
        """An integer; a key that starts with a dot belongs to the architecture."""
        value = self.metadata.get(f"{self.architecture}{key}" if key.startswith(".") else key)
        return value if isinstance(value, int) else None


def read_gguf_header(path: Path) -> GgufHeader:
    """Raises DataError when the file is not GGUF or is cut short."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Reader(data).header()
    except (struct.error, ValueError, IndexError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not a whole GGUF file. Fetch it again, or name another file.") from error


class _Reader:
    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = 0
        self._lengths: dict[str, int] = {}

    def header(self) -> GgufHeader:
        if self._data[:4] != b"GGUF":
            raise ValueError("magic")
        self._at = 4
        version, _, entries = self._number("<I"), self._number("<Q"), self._number("<Q")
        if version not in (2, 3) or entries > _MAX_ENTRIES:
            raise ValueError("version")
        metadata = dict(self._entry() for _ in range(entries))
        vocabulary = self._lengths.get("tokenizer.ggml.tokens", 0)
        return GgufHeader(str(metadata.get("general.architecture", "")), metadata, vocabulary)

    def _entry(self) -> tuple[str, MetadataValue]:
        key, kind = self._string(), self._number("<I")
        return key, self._array(key) if kind == _ARRAY else self._value(kind)

    def _array(self, key: str) -> tuple[MetadataValue, ...]:
        kind, count = self._number("<I"), self._number("<Q")
        self._lengths[key] = count
        if count <= _KEPT_ARRAY_ITEMS:
            return tuple(self._array("") if kind == _ARRAY else self._value(kind) for _ in range(count))
        if kind in _SCALARS:
            self._skip(struct.calcsize(_SCALARS[kind]) * count)
        else:
            for _ in range(count):
                self._skip(self._number("<Q"))
        return ()

    def _value(self, kind: int) -> MetadataValue:
        if kind == _STRING:
            return self._string()
        if kind not in _SCALARS:
            raise ValueError("type")
        value: int | float | bool = struct.unpack_from(_SCALARS[kind], self._data, self._at)[0]
        self._skip(struct.calcsize(_SCALARS[kind]))
        return value

    def _number(self, form: str) -> int:
        value: int = struct.unpack_from(form, self._data, self._at)[0]
        self._at += struct.calcsize(form)
        return value

    def _string(self) -> str:
        start = self._at + 8
        self._skip(self._number("<Q"))
        return self._data[start : self._at].decode("utf-8")

    def _skip(self, count: int) -> None:
        self._at += count
        if self._at > len(self._data):
            raise ValueError("cut short")
