"""Whose forward pass is next on a shared processor: a waiting query goes before any passage."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

QUERIES_IN_A_ROW = 16
"""Passes of queries after which a waiting passage gets one: ingestion slows down, it never starves."""


class Precedence:
    """One pass at a time, between threads. Passes are short, so a query waits for one of them at most."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = False
        self._queries_waiting = 0
        self._passages_waiting = 0
        self._queries_in_a_row = 0

    @property
    def waiting(self) -> int:
        """Threads that wait for their turn now."""
        return self._queries_waiting + self._passages_waiting

    @contextmanager
    def query(self) -> Iterator[None]:
        """Holds the processor for one pass of queries. Blocks until its turn."""
        with self._changed:
            self._queries_waiting += 1
            try:
                self._changed.wait_for(self._query_may_run)
            finally:
                self._queries_waiting -= 1
            self._running = True
            self._queries_in_a_row += 1
        yield from self._hold()

    @contextmanager
    def passage(self) -> Iterator[None]:
        """Holds the processor for one pass of passages. Blocks until its turn."""
        with self._changed:
            self._passages_waiting += 1
            try:
                self._changed.wait_for(self._passage_may_run)
            finally:
                self._passages_waiting -= 1
            self._running = True
            self._queries_in_a_row = 0
        yield from self._hold()

    def _hold(self) -> Iterator[None]:
        try:
            yield
        finally:
            with self._changed:
                self._running = False
                self._changed.notify_all()

    def _query_may_run(self) -> bool:
        return not self._running and not (self._passages_waiting and self._queries_in_a_row >= QUERIES_IN_A_ROW)

    def _passage_may_run(self) -> bool:
        return not self._running and (not self._queries_waiting or self._queries_in_a_row >= QUERIES_IN_A_ROW)
