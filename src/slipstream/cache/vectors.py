"""Nearest stored questions within one scope: scanned exactly while few, through a graph once they are many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from usearch.compiled import MetricKind, ScalarKind
from usearch.index import Index

from slipstream.cache.entry import Neighbour
from slipstream.types import Vector

GRAPH_ABOVE = 2_048
"""Vectors that a scan gets through in the time a graph takes."""
_EDGES = 16
_BUILD = 64
_SEARCH = 24
"""A paraphrase lies next to its question: a narrow search finds it, and what it misses is a miss."""
_FIRST_ROWS = 8


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph over vectors, and the entry behind each of its labels."""

    index: Index
    ids: Sequence[str]
    """By label."""


class ScopeVectors:
    """Unit vectors by entry id. Not thread-safe: its owner calls it from the event loop.

    Building a graph takes a second: `crowded` says that it is time, `graph_of(*vectors.snapshot())` may run on a
    worker, and `adopt` takes the result over together with what has changed meanwhile.
    """

    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions
        self._matrix: NDArray[np.float16] = np.empty((_FIRST_ROWS, dimensions), np.float16)
        self._ids: list[str] = []
        self._rows: dict[str, int] = {}
        self._graph: Index | None = None
        self._labels: dict[int, str] = {}
        self._by_id: dict[str, int] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._by_id) if self._graph is not None else len(self._ids)

    def __contains__(self, entry_id: str) -> bool:
        return entry_id in (self._by_id if self._graph is not None else self._rows)

    def ids(self) -> Iterator[str]:
        return iter(tuple(self._by_id if self._graph is not None else self._ids))

    def add(self, entry_id: str, vector: Vector) -> None:
        if entry_id in self:
            self.remove(entry_id)
        if self._graph is not None:
            self._insert(self._graph, entry_id, vector)
            return
        row = len(self._ids)
        if row == len(self._matrix):
            self._matrix = np.concatenate([self._matrix, np.empty_like(self._matrix)])
        self._matrix[row] = vector
        self._ids.append(entry_id)
        self._rows[entry_id] = row

    @property
    def crowded(self) -> bool:
        return self._graph is None and len(self._ids) > GRAPH_ABOVE

    def snapshot(self) -> tuple[Sequence[str], NDArray[np.float16]]:
        return tuple(self._ids), self._matrix[: len(self._ids)].copy()

    def adopt(self, graph: Graph) -> None:
        """Searches through the graph from now on."""
        if self._graph is not None:
            return
        there = dict(self._rows)
        matrix, self._matrix = self._matrix, np.empty((0, self._dimensions), np.float16)
        self._graph, self._next = graph.index, len(graph.ids)
        self._ids, self._rows = [], {}
        for label, entry_id in enumerate(graph.ids):
            if there.pop(entry_id, None) is None:
                graph.index.remove(label)
            else:
                self._labels[label] = entry_id
                self._by_id[entry_id] = label
        for entry_id, row in there.items():
            self._insert(graph.index, entry_id, matrix[row].astype(np.float32))

    def remove(self, entry_id: str) -> None:
        if self._graph is not None:
            label = self._by_id.pop(entry_id, None)
            if label is not None:
                del self._labels[label]
                self._graph.remove(label)
            return
        row = self._rows.pop(entry_id, None)
        if row is None:
            return
        last = len(self._ids) - 1
        moved = self._ids.pop()
        if row != last:
            self._matrix[row] = self._matrix[last]
            self._ids[row] = moved
            self._rows[moved] = row

    def nearest(self, vector: Vector, limit: int) -> Sequence[Neighbour]:
        """Best first, by cosine."""
        if not len(self):
            return ()
        if self._graph is not None:
            matches = self._graph.search(vector, limit, threads=1)
            return [
                Neighbour(self._labels[int(label)], 1.0 - float(distance))
                for label, distance in zip(matches.keys, matches.distances, strict=True)
                if int(label) in self._labels
            ]
        scores = self._matrix[: len(self._ids)].astype(np.float32) @ vector
        best = np.argsort(-scores)[:limit] if len(scores) <= limit else _top(scores, limit)
        return [Neighbour(self._ids[row], float(scores[row])) for row in best]

    def _insert(self, graph: Index, entry_id: str, vector: Vector) -> None:
        label, self._next = self._next, self._next + 1
        graph.add(label, vector, threads=1)
        self._labels[label] = entry_id
        self._by_id[entry_id] = label


def graph_of(ids: Sequence[str], matrix: NDArray[np.float16]) -> Graph:
    """matrix: (n, d), a row for each id."""
    index = Index(
        ndim=matrix.shape[1],
        metric=MetricKind.Cos,
        dtype=ScalarKind.F16,
        connectivity=_EDGES,
        expansion_add=_BUILD,
        expansion_search=_SEARCH,
    )
    index.add(np.arange(len(ids), dtype=np.uint64), matrix.astype(np.float32), threads=1)
    return Graph(index, ids)


def _top(scores: NDArray[np.float32], limit: int) -> NDArray[np.intp]:
    some = np.argpartition(-scores, limit)[:limit]
    return some[np.argsort(-scores[some])]
