"""Token vectors as Milvus keeps them: int8 rows with scales and spans, as text, several records a passage.

Milvus has no field for many vectors of one passage, and its text fields end at 65,535 bytes. A record holds as many
token rows as fit: codes (n, d) int8, scales (n,) float32, spans (n, 2) int32, in base64. Each row is scaled by its own
largest component, so one row's rounding error is at most 1/254 of that component.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slipstream.types import Encoding, Hit, Matrix, TokenVectors

_RECORD_BYTES = 49_149
"""What base64 turns into 65,532."""


@dataclass(frozen=True, slots=True)
class TokenPlace:
    """A stored passage and how many token rows it has."""

    passage_id: str
    rows: int


@dataclass(frozen=True, slots=True)
class TokenRecord:
    id: str
    text: str


class TokenRecords:
    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions
        self.rows_per_record = _RECORD_BYTES // (dimensions + 12)
        """At least one: Milvus takes vectors of 32,768 dimensions."""

    def ids(self, place: TokenPlace) -> list[str]:
        return [f"{place.passage_id}/{part}" for part in range(-(-place.rows // self.rows_per_record))]

    def pack(self, passage_id: str, encoding: Encoding) -> list[TokenRecord]:
        size = self.rows_per_record
        return [
            TokenRecord(record_id, _packed(encoding.tokens[n * size :][:size], encoding.offsets[n * size :][:size]))
            for n, record_id in enumerate(self.ids(TokenPlace(passage_id, len(encoding.tokens))))
        ]

    def whole(self, places: Iterable[TokenPlace], records: Mapping[str, str]) -> list[TokenPlace]:
        """Places whose records are all there: a passage deleted between two look-ups is no longer whole."""
        return [place for place in places if all(record_id in records for record_id in self.ids(place))]

    def read(self, place: TokenPlace, records: Mapping[str, str]) -> TokenVectors:
        parts = [self._unpacked(records[record_id]) for record_id in self.ids(place)]
        if not parts:
            return TokenVectors(np.zeros((0, self._dimensions), np.float32), np.zeros((0, 2), np.int32))
        tokens = np.concatenate([codes * scales[:, None] for codes, scales, _ in parts])
        return TokenVectors(tokens, np.concatenate([spans for _, _, spans in parts]))

    def max_sims(self, query: Matrix, places: Iterable[TokenPlace], records: Mapping[str, str]) -> list[Hit]:
        """Σ over query rows (q, d) of the best dot product in each passage, best first; 0 when either has no rows."""
        hits = [Hit(place.passage_id, self._max_sim(query, place, records)) for place in places]
        return sorted(hits, key=lambda hit: (-hit.score, hit.passage_id))

    def _max_sim(self, query: Matrix, place: TokenPlace, records: Mapping[str, str]) -> float:
        if not place.rows or not len(query):
            return 0.0
        best: Matrix = np.full(len(query), -np.inf, np.float32)
        for record_id in self.ids(place):
            codes, scales, _ = self._unpacked(records[record_id])
            similarity = query @ codes.T
            similarity *= scales
            np.maximum(best, similarity.max(axis=1), out=best)
        return float(best.sum())

    def _unpacked(self, record: str) -> tuple[Matrix, Matrix, NDArray[np.int32]]:
        data = b64decode(record)
        rows = len(data) // (self._dimensions + 12)
        codes = np.frombuffer(data, np.int8, rows * self._dimensions).reshape(rows, self._dimensions)
        scales = np.frombuffer(data, np.float32, rows, rows * self._dimensions)
        spans = np.frombuffer(data, np.int32, rows * 2, rows * (self._dimensions + 4)).reshape(rows, 2)
        return codes.astype(np.float32), scales, spans


def _packed(tokens: Matrix, offsets: NDArray[np.int32]) -> str:
    scales = (np.abs(tokens).max(axis=1, initial=1e-12) / 127).astype(np.float32)
    codes = np.rint(tokens / scales[:, None]).astype(np.int8)
    return b64encode(codes.tobytes() + scales.tobytes() + offsets.astype(np.int32).tobytes()).decode()
