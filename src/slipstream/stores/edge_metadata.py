"""Payload indexes for metadata: without one a filter reads the payload of every passage, at 8 µs each."""

from __future__ import annotations

from collections.abc import Iterable

import qdrant_edge as edge

from slipstream.stores.edge_filters import field_path
from slipstream.stores.edge_protocol import EdgePoint
from slipstream.stores.payload import TRUTHS
from slipstream.types import Scalar

MOST = 64
"""Indexes a shard may have on metadata. Filters on further keys are right as well, and slow."""


class MetadataIndexes:
    """One for each key, for the kind of value it came with first; other kinds under that key are found by reading."""

    def __init__(self, shard: edge.EdgeShard) -> None:
        self._shard = shard
        self._covered: set[str] = set()
        """Keys that have an index, or can have none."""
        self._paths: set[str] | None = None

    def cover(self, points: Iterable[EdgePoint]) -> None:
        """Makes the indexes that these passages need, before they are written."""
        for point in points:
            for key, value in point.passage.metadata.items():
                if key not in self._covered and len(self._covered) < MOST:
                    self._covered.add(key)
                    self._index(key, value)

    def _index(self, key: str, value: Scalar) -> None:
        if self._paths is None:
            schema = self._shard.info().payload_schema
            self._paths = {_bare(path) for path in schema if path.startswith(("metadata", TRUTHS))}
        path, params = _indexed(key, value)
        if path is None or _bare(path) in self._paths or len(self._paths) >= MOST:
            return
        self._shard.update(edge.UpdateOperation.create_field_index(path, params))
        self._paths.add(_bare(path))


def _indexed(key: str, value: Scalar) -> tuple[str | None, edge.PayloadSchemaParams]:
    path = field_path(f"metadata.{key}") if _can_be_named(key) else None
    if isinstance(value, bool):
        return path and path.replace("metadata", TRUTHS, 1), _WORDS
    return path, _WORDS if isinstance(value, str) else _NUMBERS


def _bare(path: str) -> str:
    """The engine quotes only where it must; keys with quotes of their own never come here."""
    return path.replace('"', "")


def _can_be_named(key: str) -> bool:
    """Filters cannot name others, see slipstream.stores.fields."""
    return bool(key) and '"' not in key and "\\" not in key


_WORDS = edge.KeywordIndexParams(enable_hnsw=False)
_NUMBERS = edge.FloatIndexParams(enable_hnsw=False)
