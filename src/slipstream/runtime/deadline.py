"""Deadlines as budgets: what each stage is expected to cost, and what to drop when the rest would not fit."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from slipstream.call import Clock
from slipstream.types import Tier

P90_SIGMAS = 1.28
"""Mean plus this many standard deviations is the 90th percentile of a normal distribution."""


@dataclass(slots=True)
class _Running:
    """Exponentially weighted mean and variance of seconds per unit.

    Source: T. Finch, Incremental calculation of weighted mean and variance, 2009, § 9.
    """

    mean: float
    seen_s: float
    variance: float = 0.0

    def add(self, value: float, weight: float, now_s: float) -> None:
        self.seen_s = now_s
        step = weight * (value - self.mean)
        self.variance = (1 - weight) * (self.variance + step * (value - self.mean))
        self.mean += step

    def upper(self) -> float:
        return self.mean + P90_SIGMAS * math.sqrt(self.variance)


@dataclass(slots=True)
class StageCosts:
    """Running upper estimates (about p90) of what a stage costs, by stage and size.

    Costs are kept per power of two of the size, because a fixed part makes small work dearer per unit.
    """

    weight: float = 0.1
    """Weight of the newest observation, in (0, 1]."""
    stale_after_s: float = 60.0
    """An estimate not renewed for so long is forgotten: a stage that is always dropped because it was slow
    once would never show that it has recovered."""
    clock: Clock = time.monotonic
    _stages: dict[str, dict[int, _Running]] = field(default_factory=dict)

    def observe(self, stage: str, size: float, seconds: float) -> None:
        """Records that a stage took `seconds` for `size` units (candidates, tokens…)."""
        size = max(size, 1.0)
        per_unit = seconds / size
        buckets = self._stages.setdefault(stage, {})
        bucket = buckets.get(_bucket(size))
        if bucket is None:
            buckets[_bucket(size)] = _Running(per_unit, self.clock())
        else:
            bucket.add(per_unit, self.weight, self.clock())

    def estimate(self, stage: str, size: float) -> float:
        """Seconds that `size` units are expected to take at most; 0 for a stage not seen lately.

        A size not seen is scaled from the nearest that was.
        """
        buckets = self._stages.get(stage)
        if buckets is None or size <= 0:
            return 0.0
        oldest_s = self.clock() - self.stale_after_s
        wanted = _bucket(size)
        if (same := buckets.get(wanted)) is not None and same.seen_s >= oldest_s:
            return size * same.upper()
        fresh = {size: seen for size, seen in buckets.items() if seen.seen_s >= oldest_s}
        if not fresh:
            return 0.0
        nearest = min(fresh, key=lambda seen: (abs(seen - wanted), seen))
        return size * fresh[nearest].upper()


def _bucket(size: float) -> int:
    return max(0, math.frexp(size)[1])


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of the path a call can afford."""

    cross_encoder: bool
    candidates: int
    """Fused candidates that are reranked."""
    late_interaction: bool
    passages: int
    tier: Tier
    max_tokens: int
    pairs: int | None = None
    """Of the candidates, those that the cross-encoder scores; None: all of them."""
    dropped: tuple[str, ...] = ()
    """What was given up to fit, in the order it was given up; goes to the response's `degraded`."""


Rung: TypeAlias = Callable[[Plan], Plan]


@dataclass(frozen=True, slots=True)
class Ladder:
    """Remaining time and running costs → a plan that fits, degrading in one declared order.

    The order: cross-encoder, fewer candidates, late interaction, fewer passages, smaller model, shorter
    answer. A rung that would save no time is passed over. When even the lowest does not fit, that is
    the plan: the deadline itself decides then.
    Costs are looked up as "cross_encoder" and "late_interaction" (per candidate), "prefill.<tier>" and
    "decode.<tier>" (per token).
    """

    costs: StageCosts
    passage_tokens: int = 200
    """Prompt tokens that one passage adds."""
    min_candidates: int = 8
    min_passages: int = 1
    min_tokens: int = 32
    smaller_tier: Tier = "small"

    def plan(self, wanted: Plan, remaining_s: float) -> Plan:
        """The first plan down the ladder whose expected cost fits `remaining_s`."""
        if self.cost_s(wanted) <= remaining_s:
            return wanted
        plan = wanted
        for name, rung in self._rungs(remaining_s):
            cost_s = self.cost_s(plan)
            if cost_s <= remaining_s:
                return plan
            lower = rung(plan)
            if self.cost_s(lower) < cost_s:
                plan = replace(lower, dropped=(*plan.dropped, name))
        return plan

    def cost_s(self, plan: Plan) -> float:
        """Expected seconds from reranking to the last token."""
        seconds = self._decode_s(plan) + self.costs.estimate(
            f"prefill.{plan.tier}", plan.passages * self.passage_tokens
        )
        if plan.late_interaction:
            seconds += self.costs.estimate("late_interaction", plan.candidates)
        if plan.cross_encoder:
            pairs = plan.candidates if plan.pairs is None else min(plan.pairs, plan.candidates)
            seconds += self.costs.estimate("cross_encoder", pairs)
        return seconds

    def _decode_s(self, plan: Plan) -> float:
        return self.costs.estimate(f"decode.{plan.tier}", plan.max_tokens)

    def _rungs(self, remaining_s: float) -> tuple[tuple[str, Rung], ...]:
        return (
            ("cross_encoder", lambda plan: replace(plan, cross_encoder=False)),
            ("candidates", lambda plan: replace(plan, candidates=min(plan.candidates, self.min_candidates))),
            ("late_interaction", lambda plan: replace(plan, late_interaction=False)),
            ("passages", lambda plan: replace(plan, passages=min(plan.passages, self.min_passages))),
            ("model", self._smaller_model),
            ("answer_length", lambda plan: self._shorter(plan, remaining_s)),
        )

    def _smaller_model(self, plan: Plan) -> Plan:
        return replace(plan, tier=self.smaller_tier) if plan.tier == "large" else plan

    def _shorter(self, plan: Plan, remaining_s: float) -> Plan:
        decode_s = self._decode_s(plan)
        if decode_s <= 0:
            return plan
        affordable_s = remaining_s - (self.cost_s(plan) - decode_s)
        tokens = int(plan.max_tokens * max(0.0, affordable_s) / decode_s)
        return replace(plan, max_tokens=min(plan.max_tokens, max(tokens, self.min_tokens)))


RUNGS: Final = ("cross_encoder", "candidates", "late_interaction", "passages", "model", "answer_length")
"""Names a plan's `dropped` may hold, in order."""
