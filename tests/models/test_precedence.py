"""Queries before passages, without starving them."""

from __future__ import annotations

import os
import threading
from typing import Literal, TypeAlias

import pytest

from slipstream.models.precedence import QUERIES_IN_A_ROW, Precedence

Who: TypeAlias = Literal["query", "passage"]


def run_in_turn(arrivals: list[Who]) -> list[Who]:
    """All arrive, in any order, while a pass of passages runs; returns in which order they run after it."""
    precedence = Precedence()
    order: list[Who] = []

    def take(who: Who) -> None:
        with precedence.query() if who == "query" else precedence.passage():
            order.append(who)

    threads = [threading.Thread(target=take, args=(who,), daemon=True) for who in arrivals]
    with precedence.passage():
        for thread in threads:
            thread.start()
        while precedence.waiting < len(arrivals):
            os.sched_yield()
    for thread in threads:
        thread.join(timeout=10)
    return order


def test_waiting_queries_go_first() -> None:
    assert run_in_turn(["passage", "query", "passage", "query"]) == ["query", "query", "passage", "passage"]


def test_passages_are_not_starved() -> None:
    queries: list[Who] = ["query"] * (2 * QUERIES_IN_A_ROW)
    order = run_in_turn([*queries, "passage"])
    assert order.index("passage") == QUERIES_IN_A_ROW


def test_a_failing_pass_frees_the_processor() -> None:
    precedence = Precedence()
    with pytest.raises(ValueError, match="broken"), precedence.query():
        raise ValueError("broken")
    with precedence.passage():
        assert precedence.waiting == 0
