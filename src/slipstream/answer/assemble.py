"""Passages → Prompt within a token budget: stable parts first, passages as data, the question last."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from slipstream.answer import prompts
from slipstream.call import Call
from slipstream.errors import InvalidRequest
from slipstream.models.base import LanguageModel
from slipstream.runtime.workers import Worker
from slipstream.settings import AnswerSettings
from slipstream.types import Evidence, Language, Message, Passages, Prompt, Question, Route, Tier, Turn

_DELIMITER = re.compile(r"[<＜](?=\s*[/／]?\s*passage)|[<＜](?=[|｜])", re.IGNORECASE)
"""What could pass for our delimiter or a chat template's control token, in any width or case."""
_KEPT_TURNS = 4

_INLINE_CHARACTERS = 1_000
"""Below this (about 0.3 ms of tokenising) handing the work to a thread costs more than doing it."""


class Assembler:
    """Renders prompts; a passage renders byte-identically wherever it appears with the same number."""

    def __init__(self, models: Mapping[Tier, LanguageModel], settings: AnswerSettings, worker: Worker) -> None:
        self._models = models
        self._settings = settings
        self._worker = worker

    async def __call__(self, question: Question, passages: Passages, route: Route, call: Call) -> Prompt:
        """Raises InvalidRequest when question and conversation alone exceed the model's context."""
        model = self._models.get(route.tier)
        if model is None:
            return Prompt((), passages.items, 0, passages.query.language)
        with call.stage("assemble") as span:
            if _characters(question, passages) <= _INLINE_CHARACTERS:
                prompt = self._fit(question, passages, model, route)
            else:
                prompt = await self._worker.run(self._fit, question, passages, model, route)
            span.detail["tokens"] = prompt.tokens
            span.detail["passages"] = len(prompt.evidence)
            return prompt

    def _fit(self, question: Question, passages: Passages, model: LanguageModel, route: Route) -> Prompt:
        """As many passages as the budget takes, best first; the first is cut rather than dropped."""
        language = passages.query.language
        room = model.context_tokens - route.sampling.max_tokens
        history = question.history[-_KEPT_TURNS:]
        bare = model.count_tokens(messages(question, (), history, language))
        if bare > room:
            history = ()
            bare = model.count_tokens(messages(question, (), history, language))
        if bare >= room:
            raise InvalidRequest(
                f"The question takes {bare} tokens and the answer up to {route.sampling.max_tokens}, but the model "
                f"reads {model.context_tokens} in all. Shorten the question or lower max_tokens.",
                code="context_length_exceeded",
                param="messages",
            )
        budget = min(self._settings.context_tokens, room - bare)
        kept: list[Evidence] = []
        for number, evidence in enumerate(passages.items, 1):
            cost = model.count_text_tokens(render_passage(number, evidence)) + 1
            if cost > budget:
                break
            budget -= cost
            kept.append(evidence)
        rendered = messages(question, kept, history, language)
        return Prompt(rendered, tuple(kept), model.count_tokens(rendered), language)


def _characters(question: Question, passages: Passages) -> int:
    said = len(question.text) + sum(len(turn.text) for turn in question.history)
    return said + sum(len(item.passage.text) for item in passages.items)


def messages(
    question: Question, evidence: Sequence[Evidence], history: Sequence[Turn], language: Language
) -> tuple[Message, ...]:
    """System message, then one user message: passages, conversation, question."""
    spoken = prompts.spoken(language)
    system = prompts.SYSTEM[spoken]
    if question.instructions:
        system = f"{system}\n\n{neutralise(question.instructions)}"
    parts = [render_passage(number, item) for number, item in enumerate(evidence, 1)]
    if history:
        turns = "\n".join(f"{turn.role}: {neutralise(turn.text)}" for turn in history)
        parts.append(f"{prompts.CONVERSATION[spoken]}:\n{turns}")
    parts.append(f"{prompts.QUESTION[spoken]}: {neutralise(question.text)}")
    return Message("system", system), Message("user", "\n\n".join(parts))


def system_prefix(language: Language) -> tuple[Message, ...]:
    """The stable start of every prompt in a language: what warm-up prefills."""
    return (Message("system", prompts.SYSTEM[prompts.spoken(language)]),)


def render_passage(number: int, evidence: Evidence) -> str:
    """One passage between delimiters that its own text cannot forge."""
    passage = evidence.passage
    heading = " › ".join(part for part in (passage.title, *passage.headings) if part)
    body = neutralise(passage.text)
    label = f"{neutralise(heading)}\n" if heading else ""
    return f'<passage id="{number}">\n{label}{body}\n</passage>'


def neutralise(text: str) -> str:
    """Replaces the bracket of anything that reads like a delimiter or control token by ‹."""
    return _DELIMITER.sub("‹", text)
