"""(Question, Passages) → Route: a pure rule set picks the tier and says why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from slipstream.call import Call
from slipstream.errors import InvalidRequest
from slipstream.models.base import LanguageModel
from slipstream.settings import AnswerSettings
from slipstream.types import Language, Passages, Question, Route, Sampling, Tier

_PARAGRAPH = "\n\n"
_MAX_STOPS = 4


class Router:
    """Rules over question, evidence and the tiers at hand; no state of its own."""

    def __init__(self, models: Mapping[Tier, LanguageModel], settings: AnswerSettings) -> None:
        self._models = models
        self._settings = settings

    def __call__(self, question: Question, passages: Passages, call: Call) -> Route:
        """Raises InvalidRequest when the caller insists on a tier that is not configured."""
        with call.stage("route") as span:
            tier, reason = self._choose(question, passages)
            span.detail["tier"] = tier
            span.detail["reason"] = reason
            return Route(tier, reason, self._sampling(question, tier))

    def _choose(self, question: Question, passages: Passages) -> tuple[Tier, str]:
        if not passages.items:
            return "extractive", "nothing in the documents answers"
        if question.route is not None:
            if question.route != "extractive" and question.route not in self._models:
                raise InvalidRequest(
                    f'There is no "{question.route}" model here. Leave slipstream.route out, or configure '
                    f"models.{question.route}.",
                    param="slipstream.route",
                )
            return question.route, "asked for"
        language = passages.query.language
        if "large" in self._models and (question.history or not self._speaks("small", language)):
            return "large", "a conversation" if question.history else f"the small model does not speak {language}"
        if self._speaks("small", language):
            return "small", "default"
        if "large" in self._models:
            return "large", "the only model"
        return "extractive", f"no model here speaks {language}: the evidence is quoted"

    def _sampling(self, question: Question, tier: Tier) -> Sampling:
        """A very small model answers in its first paragraph and rambles after it, so it is asked for no more."""
        sampling = question.sampling
        if tier != "small" or sampling.length_given or sampling.json_schema is not None:
            return sampling
        max_tokens = min(sampling.max_tokens, self._settings.small_max_tokens)
        return replace(sampling, max_tokens=max_tokens, stop=(*sampling.stop, _PARAGRAPH)[:_MAX_STOPS])

    def _speaks(self, tier: Tier, language: Language) -> bool:
        model = self._models.get(tier)
        return model is not None and language in model.languages
