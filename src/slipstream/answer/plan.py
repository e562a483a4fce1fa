"""Question → Question that fits its deadline: what to drop is decided before the work begins, and said."""

from __future__ import annotations

import math
from dataclasses import replace

from slipstream.call import Call
from slipstream.runtime.deadline import Ladder, Plan
from slipstream.settings import RetrievalSettings
from slipstream.types import Question, Tier


class Planner:
    """Walks the ladder when the estimated rest of the path would not fit, and learns from finished calls."""

    def __init__(
        self, ladder: Ladder, settings: RetrievalSettings, tiers: tuple[Tier, ...], cross_encoder: bool = False
    ) -> None:
        self._ladder = ladder
        self._settings = settings
        self._usual: Tier = "large" if "large" in tiers else "small"
        self._has_smaller = "small" in tiers
        self._cross_encoder = cross_encoder

    def __call__(self, question: Question, call: Call) -> Question:
        """The question with its own options lowered as far as needed; `degraded` names what was dropped."""
        remaining_s = call.deadline.remaining_s()
        if math.isinf(remaining_s):
            return question
        wanted = self._wanted(question)
        plan = self._ladder.plan(wanted, remaining_s)
        if not plan.dropped:
            return question
        for what in plan.dropped:
            call.degrade(what)
        return replace(
            question,
            candidates=plan.candidates if plan.late_interaction else 0,
            pairs=question.pairs if plan.cross_encoder else 0,
            passages=plan.passages,
            route=plan.tier if plan.tier != wanted.tier and self._has_smaller else question.route,
            sampling=replace(question.sampling, max_tokens=plan.max_tokens),
        )

    def learn(self, call: Call) -> None:
        """Takes the costs of a finished call's stages into the estimates."""
        costs = self._ladder.costs
        generation = next((s for s in call.spans if s.name == "generate" and s.end_s is not None), None)
        first = next((s for s in call.spans if s.name == "first_token"), None)
        for span in call.spans:
            timed = span.name in {"late_interaction", "cross_encoder"} and span.end_s is not None
            if timed and "candidates" in span.detail:  # scores that were remembered cost nothing
                costs.observe(span.name, float(span.detail["candidates"]), span.duration_s)
        if generation is None or first is None or "tokens" not in generation.detail:
            return
        tier, tokens = generation.detail["tier"], float(generation.detail["tokens"])
        prompt = next((float(s.detail.get("tokens", 0)) for s in call.spans if s.name == "assemble"), 0.0)
        costs.observe(f"prefill.{tier}", prompt, first.start_s - generation.start_s)
        costs.observe(f"decode.{tier}", tokens, generation.start_s + generation.duration_s - first.start_s)

    def _wanted(self, question: Question) -> Plan:
        candidates = self._settings.rerank_limit if question.candidates is None else question.candidates
        pairs = self._settings.cross_encoder_limit if question.pairs is None else question.pairs
        return Plan(
            cross_encoder=self._cross_encoder and pairs > 0 and candidates > 0,
            candidates=candidates,
            late_interaction=candidates > 0,
            passages=question.passages or self._settings.passages,
            tier=question.route or self._usual,
            max_tokens=question.sampling.max_tokens,
            pairs=pairs,
        )
