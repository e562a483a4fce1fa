"""Query → what a language model would ask, imagine or make of it; only when asked for, and only within its time."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from slipstream.call import Call
from slipstream.errors import SlipstreamError
from slipstream.models.base import LanguageModel
from slipstream.types import Language, Message, Query, Question, Sampling, Tier

_MOST_TOKENS = 80
_KEPT_TURNS = 4
_LISTED = re.compile(r"^\s*(?:[-*•]|\(?\d+[.)、])?\s*")
_PARAPHRASE = {
    "en": "Write three other ways to ask this question, one per line, nothing else.\nQuestion: {text}",
    "zh": "用三种不同的说法改写这个问题，每行一个，不要写别的。\n问题：{text}",
}
_IMAGINE = {
    "en": "Write two sentences of a document that would answer this question.\nQuestion: {text}",
    "zh": "写两句可能出现在文档里、能回答这个问题的话。\n问题：{text}",
}
_STAND_ALONE = {
    "en": "{conversation}\nRewrite the last question so that it can be understood without the conversation. "
    "Write only the question.\nLast question: {text}",
    "zh": "{conversation}\n把最后一个问题改写成不看对话也能看懂的问题，只写问题。\n最后一个问题：{text}",
}


class Wording:
    """Asks the smallest model that speaks the query's language; without one, or in time's need, there is nothing."""

    def __init__(self, models: Mapping[Tier, LanguageModel], limit_s: float) -> None:
        self._models = models
        self._limit_s = limit_s

    def speaks(self, language: Language) -> bool:
        return self._model(language) is not None

    async def paraphrases(self, query: Query, call: Call) -> tuple[str, ...]:
        """Up to three; none when the model could not be asked, which the call then says."""
        written = await self._written(_PARAPHRASE, query, call, text=query.text)
        lines = (_LISTED.sub("", line).strip() for line in written.splitlines())
        return tuple(dict.fromkeys(line for line in lines if line and line != query.text))[:3]

    async def imagined(self, query: Query, call: Call) -> tuple[str, ...]:
        """One passage that would answer. Source: Gao et al., Precise Zero-Shot Dense Retrieval (HyDE), ACL 2023."""
        written = " ".join((await self._written(_IMAGINE, query, call, text=query.text)).split())
        return (written,) if written else ()

    async def stand_alone(self, query: Query, question: Question, call: Call) -> Query:
        """The follow-up made to stand alone; the query as it was when the model does not manage."""
        said = "\n".join(f"{turn.role}: {turn.text}" for turn in question.history[-_KEPT_TURNS:])
        written = await self._written(_STAND_ALONE, query, call, text=question.text, conversation=said)
        text = " ".join(written.split())
        if not text:
            return query
        return replace(query, text=text, rewritten=True, certain=True, reason="follow-up: condensed by the model")

    async def _written(self, prompts: Mapping[str, str], query: Query, call: Call, **values: str) -> str:
        model = self._model(query.language)
        if model is None or call.deadline.remaining_s() < 2 * self._limit_s:
            call.degrade("expansion_model")
            return ""
        prompt = prompts["zh" if query.language == "zh" else "en"].format(**values)
        with call.stage("wording", model=model.name) as span:
            try:
                async with asyncio.timeout(self._limit_s):
                    text = await _generated(model, (Message("user", prompt),), call)
            except (TimeoutError, SlipstreamError) as error:
                span.detail["failed"] = type(error).__name__
                call.degrade("expansion_model")
                return ""
            span.detail["characters"] = len(text)
            return text

    def _model(self, language: Language) -> LanguageModel | None:
        tiers: Sequence[Tier] = ("small", "large")
        models = (self._models.get(tier) for tier in tiers)
        return next((model for model in models if model is not None and language in model.languages), None)


async def _generated(model: LanguageModel, messages: Sequence[Message], call: Call) -> str:
    pieces: list[str] = []
    async with model.generate(messages, Sampling(max_tokens=_MOST_TOKENS), call) as tokens:
        async for batch in tokens:
            pieces += [token.text for token in batch]
    return "".join(pieces)
