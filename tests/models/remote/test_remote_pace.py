"""What is learnt of an engine's pace."""

from __future__ import annotations

import pytest

from slipstream.call import Deadline
from slipstream.models.remote.pace import Pace


def test_before_anything_is_known_nothing_is_cut() -> None:
    assert Pace().affordable(Deadline.after(0.001)) is None


def test_a_deadline_that_never_comes_is_no_bound() -> None:
    pace = Pace()
    pace.learn(0.1, 9.9, 100)
    assert pace.affordable(Deadline(None)) is None


def test_short_answers_tell_nothing_of_the_pace() -> None:
    pace = Pace()
    pace.learn(0.1, 5.0, 3)
    assert pace.token_s == 0
    assert pace.first_token_s == 0.1


def test_the_pace_follows_what_is_seen() -> None:
    pace = Pace()
    pace.learn(0.2, 9.9, 100)
    assert pace.token_s == pytest.approx(0.1)
    for _ in range(60):
        pace.learn(0.2, 19.8, 100)
    assert pace.token_s == pytest.approx(0.2, rel=0.01)
    assert pace.affordable(Deadline.after(20.2, lambda: 0.0)) == pytest.approx(80, abs=1)
