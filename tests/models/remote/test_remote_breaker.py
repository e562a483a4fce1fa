"""A breaker opens on failures, lets one request try, and comes back."""

from __future__ import annotations

import random

from slipstream.models.remote.breaker import FIRST_PAUSE_S, LONGEST_PAUSE_S, THRESHOLD, Breaker


class Now:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


def opened(now: Now) -> Breaker:
    breaker = Breaker(now, random.Random(1))
    breaker.failure(certain=True)
    return breaker


def test_doubtful_failures_open_it_only_in_a_row() -> None:
    breaker = Breaker(Now())
    for _ in range(THRESHOLD - 1):
        breaker.failure()
    breaker.success()
    for _ in range(THRESHOLD - 1):
        breaker.failure()
    assert breaker.allows
    breaker.failure()
    assert breaker.state == "open"
    assert not breaker.allows


def test_one_request_tries_and_its_fate_decides() -> None:
    now = Now()
    breaker = opened(now)
    now.s += breaker.opens_in_s
    assert breaker.allows
    breaker.begin()
    assert not breaker.allows
    breaker.success()
    assert breaker.state == "closed"
    assert breaker.allows


def test_a_failed_try_doubles_the_pause_up_to_a_bound() -> None:
    now = Now()
    breaker = opened(now)
    pauses = []
    for _ in range(8):
        pauses.append(breaker.opens_in_s)
        now.s += breaker.opens_in_s
        breaker.begin()
        breaker.failure()
    assert 0.75 * FIRST_PAUSE_S <= pauses[0] <= 1.25 * FIRST_PAUSE_S
    assert pauses[2] > pauses[0] * 2
    assert max(pauses) <= 1.25 * LONGEST_PAUSE_S


def test_a_try_that_nobody_judged_makes_room_for_the_next() -> None:
    now = Now()
    breaker = opened(now)
    now.s += breaker.opens_in_s
    breaker.begin()
    breaker.abandoned()
    assert breaker.allows


def test_a_passed_health_check_shortens_the_pause() -> None:
    breaker = opened(Now())
    breaker.well()
    assert breaker.state == "half_open"
    assert breaker.allows
