"""Whose forward pass begins on a shared processor: a query's at once, one of passages when no query runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

QUERIES_IN_A_ROW = 16
"""Passes of queries after which a waiting passage gets one: ingestion slows down, it never starves."""


class Precedence:
    """A query never waits: it shares the processor with the passes that run, which is sooner than their end.

    No pass of passages begins beside it, so that the next query finds the processor free.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queries = 0
        self._passages_waiting = 0
        self._queries_in_a_row = 0

    @property
    def waiting(self) -> int:
        """Passes of passages that wait for their turn now."""
        return self._passages_waiting

    @contextmanager
    def query(self) -> Iterator[None]:
        """Around one pass of queries."""
        with self._changed:
            self._queries += 1
        try:
            yield
        finally:
            with self._changed:
                self._queries -= 1
                self._queries_in_a_row += 1
                self._changed.notify_all()

    @contextmanager
    def passage(self) -> Iterator[None]:
        """Around one pass of passages. Blocks until its turn."""
        with self._changed:
            self._passages_waiting += 1
            try:
                self._changed.wait_for(self._passage_may_begin)
            finally:
                self._passages_waiting -= 1
            self._queries_in_a_row = 0
        yield

    def _passage_may_begin(self) -> bool:
        return not self._queries or self._queries_in_a_row >= QUERIES_IN_A_ROW
