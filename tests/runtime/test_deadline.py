"""Stage costs and the ladder: pure, and degrading in the declared order."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from slipstream.runtime.deadline import RUNGS, Ladder, Plan, StageCosts

WANTED = Plan(cross_encoder=True, candidates=50, late_interaction=True, passages=4, tier="large", max_tokens=200)


def costs() -> StageCosts:
    """Per unit: cross-encoder 20 ms, late interaction 1 ms; large tier 2/50 ms, small .5/10 ms a token."""
    known = StageCosts()
    for stage, per_unit_s in {
        "cross_encoder": 0.02,
        "late_interaction": 0.001,
        "prefill.large": 0.002,
        "decode.large": 0.05,
        "prefill.small": 0.0005,
        "decode.small": 0.01,
    }.items():
        known.observe(stage, 100, per_unit_s * 100)
    return known


def test_a_stage_never_seen_costs_nothing() -> None:
    assert StageCosts().estimate("rerank", 100) == 0


def test_constant_cost_is_estimated_exactly() -> None:
    known = StageCosts()
    for _ in range(20):
        known.observe("encode", 12, 0.006)
    assert known.estimate("encode", 12) == pytest.approx(0.006)


def test_the_estimate_is_near_the_90th_percentile() -> None:
    rng = random.Random(7)
    known = StageCosts(weight=0.02)
    drawn = [rng.gauss(1.0, 0.2) for _ in range(4_000)]
    for seconds in drawn:
        known.observe("x", 1, seconds)
    p90 = sorted(drawn)[3_600]
    assert known.estimate("x", 1) == pytest.approx(p90, rel=0.1)


def test_small_work_keeps_its_own_price_per_unit() -> None:
    known = StageCosts()
    for _ in range(10):
        known.observe("encode", 1, 0.010)
        known.observe("encode", 1_000, 0.100)
    assert known.estimate("encode", 1) == pytest.approx(0.010)
    assert known.estimate("encode", 1_000) == pytest.approx(0.100)
    assert known.estimate("encode", 2_000) == pytest.approx(0.200), "scaled from the nearest size seen"


def test_follows_a_change() -> None:
    known = StageCosts(weight=0.2)
    for seconds in [0.1] * 50 + [0.4] * 50:
        known.observe("x", 1, seconds)
    assert known.estimate("x", 1) == pytest.approx(0.4, rel=0.05)


def test_what_was_slow_once_gets_another_chance() -> None:
    now = [0.0]
    known = StageCosts(clock=lambda: now[0])
    known.observe("late_interaction", 50, 30.0)
    assert known.estimate("late_interaction", 50) == pytest.approx(30.0)
    now[0] = 61.0
    assert known.estimate("late_interaction", 50) == 0
    known.observe("late_interaction", 50, 0.05)
    assert known.estimate("late_interaction", 10) > 0


def test_nothing_is_dropped_when_it_fits_or_nothing_is_known() -> None:
    assert Ladder(costs()).plan(WANTED, 60) == WANTED
    assert Ladder(StageCosts()).plan(WANTED, 0.001) == WANTED


def test_degrades_in_the_declared_order_and_only_as_far_as_needed() -> None:
    ladder = Ladder(costs())
    whole_s = ladder.cost_s(WANTED)
    steps = [ladder.plan(WANTED, whole_s * part / 1_000).dropped for part in range(1_000, 0, -1)]
    assert steps[0] == ()
    assert steps[-1] == ("cross_encoder", "candidates", "late_interaction", "passages", "model", "answer_length")
    for before, after in itertools.pairwise(steps):
        assert after[: len(before)] == before, "less time never drops less"
    for dropped in steps:
        assert list(dropped) == [name for name in RUNGS if name in dropped]


def test_the_plan_fits_whenever_the_lowest_rung_does() -> None:
    ladder = Ladder(costs())
    for remaining_s in (20.0, 11.0, 5.0, 2.0, 1.0, 0.6):
        assert ladder.cost_s(ladder.plan(WANTED, remaining_s)) <= remaining_s


def test_the_answer_is_cut_to_what_remains_but_not_to_nothing() -> None:
    ladder = Ladder(costs())
    wanted = replace(WANTED, cross_encoder=False, late_interaction=False, tier="small", passages=1)
    prefill_s = ladder.cost_s(replace(wanted, max_tokens=0))
    assert ladder.plan(wanted, prefill_s + 1.0).max_tokens == pytest.approx(100, abs=1)
    assert ladder.plan(wanted, 0.0).max_tokens == ladder.min_tokens


def test_a_rung_that_saves_nothing_is_passed_over() -> None:
    known = StageCosts()
    known.observe("decode.large", 100, 5.0)
    plan = Ladder(known).plan(WANTED, 4.0)
    assert plan.dropped == ("model",)
    assert plan.cross_encoder
