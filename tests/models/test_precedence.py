"""Queries at once, passages between them, without starving."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import pytest

from slipstream.models.precedence import QUERIES_IN_A_ROW, Precedence


def start_passage(precedence: Precedence, then: Callable[[], None]) -> threading.Thread:
    """A thread with one pass of passages; returns when it waits for its turn."""

    def take() -> None:
        with precedence.passage():
            then()

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    while not precedence.waiting:
        os.sched_yield()
    return thread


def test_a_query_waits_for_nothing() -> None:
    precedence = Precedence()
    with precedence.passage(), precedence.passage(), precedence.query(), precedence.query():
        assert precedence.waiting == 0


def test_no_passage_begins_beside_a_query() -> None:
    precedence = Precedence()
    order: list[str] = []
    with precedence.query():
        thread = start_passage(precedence, lambda: order.append("passage"))
        with precedence.query():
            order.append("another query")
        assert precedence.waiting == 1
        order.append("query")
    thread.join(timeout=10)
    assert order == ["another query", "query", "passage"]


def test_passages_are_not_starved() -> None:
    precedence = Precedence()
    ran = threading.Event()
    with precedence.query():
        start_passage(precedence, ran.set)
        for _ in range(QUERIES_IN_A_ROW - 1):
            with precedence.query():
                assert not ran.is_set()
        with precedence.query():
            pass
        assert ran.wait(timeout=10)


def test_a_failing_pass_frees_the_processor() -> None:
    precedence = Precedence()
    with pytest.raises(ValueError, match="broken"), precedence.query():
        raise ValueError("broken")
    with precedence.passage():
        assert precedence.waiting == 0
