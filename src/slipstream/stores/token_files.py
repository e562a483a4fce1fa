"""Token vectors on disk: append-only files of int8 rows, read back for MaxSim and for marking sentences.

Each row is scaled by its own largest component, so one row's rounding error is at most 1/254 of that component.
A record is codes (n, d) int8, scales (n,) float32, spans (n, 2) int32, contiguous; whoever stores its place in the
shard afterwards makes it part of the collection, so a torn record at the end of a file belongs to nobody.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from io import FileIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slipstream.errors import DataError
from slipstream.stores.edge_protocol import TokenPlace
from slipstream.types import Encoding, Matrix, TokenVectors, Vector

_FILE_BYTES = 1 << 28
"""Size at which a new file begins."""
_SUFFIX = ".tokens"


class TokenFiles:
    """One writer, many readers; every method blocks and belongs on a worker."""

    def __init__(self, directory: Path, dimensions: int, file_bytes: int = _FILE_BYTES) -> None:
        self._directory = directory
        self._dimensions = dimensions
        self._file_bytes = file_bytes
        self._lock = threading.Lock()
        self._readers: dict[int, FileIO] = {}
        self._writer: FileIO
        self._current = 0

    def open(self) -> None:
        """Starts a new file, so that what a killed process left half written is never appended to."""
        self._directory.mkdir(parents=True, exist_ok=True)
        latest = max(self.files(), default=0)
        for file in self.files():
            if not self._size(file):
                self.remove(file)
        self._start(latest + 1)

    def close(self) -> None:
        self._writer.close()
        with self._lock:
            for reader in self._readers.values():
                reader.close()
            self._readers.clear()

    def files(self) -> list[int]:
        return sorted(int(path.stem) for path in self._directory.glob(f"*{_SUFFIX}"))

    def record_bytes(self, rows: int) -> int:
        return rows * (self._dimensions + 4 + 8)

    def append(self, passage_id: str, encoding: Encoding) -> TokenPlace:
        return self._write(passage_id, _packed(encoding.tokens, encoding.offsets), len(encoding.tokens))

    def copy_all(self, places: list[TokenPlace]) -> list[TokenPlace]:
        """Appends existing records again, bytes unchanged; on disk on return."""
        copies = [self._write(place.passage_id, self._record(place), place.rows) for place in places]
        self.sync()
        return copies

    def sync(self) -> None:
        """On return everything appended survives a power cut."""
        os.fsync(self._writer.fileno())

    def read(self, place: TokenPlace) -> TokenVectors:
        """Raises FileNotFoundError when the record has moved since its place was looked up."""
        record = self._record(place)
        codes, scales = self._codes(record, place.rows)
        offsets = np.frombuffer(record, np.int32, offset=place.rows * (self._dimensions + 4)).reshape(-1, 2)
        return TokenVectors(codes * scales[:, None], offsets)

    def max_sim(self, query: Matrix, place: TokenPlace) -> float:
        """Σ over query rows (q, d) of the best dot product in the record (n, d); 0 when either has no rows."""
        if not place.rows or not len(query):
            return 0.0
        codes, scales = self._codes(self._record(place), place.rows)
        similarity = query @ codes.T
        similarity *= scales
        return float(similarity.max(axis=1).sum())

    def remove(self, file: int) -> None:
        with self._lock:
            reader = self._readers.pop(file, None)
            if reader is not None:
                reader.close()
            self._path(file).unlink(missing_ok=True)

    def dead_files(self, places: Iterable[TokenPlace]) -> dict[int, list[TokenPlace]]:
        """Files of which at most half is in use, with the records still in use; never the one being written."""
        live: dict[int, list[TokenPlace]] = {file: [] for file in self.files() if file != self._current}
        for place in places:
            if place.file in live:
                live[place.file].append(place)
        return {file: kept for file, kept in live.items() if self._used(kept) * 2 <= self._size(file)}

    def bytes_on_disk(self) -> int:
        return sum(self._size(file) for file in self.files())

    def _used(self, places: list[TokenPlace]) -> int:
        return sum(self.record_bytes(place.rows) for place in places)

    def _size(self, file: int) -> int:
        return self._path(file).stat().st_size

    def _path(self, file: int) -> Path:
        return self._directory / f"{file:08}{_SUFFIX}"

    def _start(self, file: int) -> None:
        self._current = file
        self._writer = self._path(file).open("xb", buffering=0)

    def _write(self, passage_id: str, record: bytes, rows: int) -> TokenPlace:
        if self._writer.tell() >= self._file_bytes:
            self.sync()
            self._writer.close()
            self._start(self._current + 1)
        place = TokenPlace(passage_id, self._current, self._writer.tell(), rows)
        rest = memoryview(record)
        while rest:  # an unbuffered write may be short
            rest = rest[self._writer.write(rest) :]
        return place

    def _record(self, place: TokenPlace) -> bytes:
        size = self.record_bytes(place.rows)
        with self._lock:  # so that `remove` cannot close the descriptor under us
            record = os.pread(self._reader(place.file).fileno(), size, place.start)
        if len(record) < size:
            raise DataError(f"Token file {place.file} is shorter than the store says. Restore it or ingest again.")
        return record

    def _reader(self, file: int) -> FileIO:
        reader = self._readers.get(file)
        if reader is None:
            reader = self._path(file).open("rb", buffering=0)
            self._readers[file] = reader
        return reader

    def _codes(self, record: bytes, rows: int) -> tuple[Matrix, Matrix]:
        codes = np.frombuffer(record, np.int8, rows * self._dimensions).reshape(rows, self._dimensions)
        scales = np.frombuffer(record, np.float32, rows, rows * self._dimensions)
        return codes.astype(np.float32), scales


def _packed(tokens: Matrix, offsets: NDArray[np.int32]) -> bytes:
    scales: Vector = np.abs(tokens).max(axis=1, initial=1e-12).astype(np.float32) / np.float32(127)
    codes: NDArray[np.int8] = np.rint(tokens / scales[:, None]).astype(np.int8)
    return codes.tobytes() + scales.tobytes() + offsets.astype(np.int32).tobytes()
