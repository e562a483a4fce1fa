"""(Prompt, Route) → Tokens: the tier's model streams; the extractive tier quotes."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import replace

from slipstream.answer import prompts
from slipstream.answer.loops import LoopGuard
from slipstream.call import Call, Clock
from slipstream.models.base import LanguageModel
from slipstream.text.plain import plain
from slipstream.types import Prompt, Route, Tier, Token, Tokens, Usage


class Generator:
    """Streams from the model of the route's tier, and marks the first token on the call."""

    def __init__(
        self,
        models: Mapping[Tier, LanguageModel],
        on_gap: Callable[[float], None] = lambda _: None,
        clock: Clock = time.monotonic,
    ) -> None:
        """`on_gap` takes the seconds between one piece of a stream and the next."""
        self._models = models
        self._on_gap = on_gap
        self._clock = clock

    async def __call__(self, prompt: Prompt, route: Route, call: Call) -> AsyncGenerator[Tokens, None]:
        """Closing the generator cancels the generation and frees its slot."""
        model = self._models.get(route.tier)
        with call.stage("generate", tier=route.tier) as span:
            if model is None or not prompt.messages:
                yield (Token(quotation(prompt), 0, "stop", Usage()),)
                return
            last_s: float | None = None
            loop = LoopGuard() if route.sampling.json_schema is None else None
            written = 0
            async with model.generate(prompt.messages, route.sampling, call) as tokens:
                async for batch in tokens:
                    now_s = self._clock()
                    if last_s is None:
                        call.mark("first_token")
                    else:
                        self._on_gap(now_s - last_s)
                    last_s = now_s
                    last = batch[-1]
                    if last.usage is not None:
                        span.detail["tokens"] = last.usage.completion_tokens
                        span.detail["prompt_tokens"] = last.usage.prompt_tokens
                        span.detail["cached_tokens"] = last.usage.cached_tokens
                    written += last.count if len(batch) == 1 else sum([token.count for token in batch])
                    if loop is not None and last.finish_reason is None and loop.looping(text_of(batch)):
                        call.degrade("repetition_cut")
                        span.detail["tokens"] = written
                        span.detail["prompt_tokens"] = prompt.tokens
                        yield (*batch[:-1], replace(last, finish_reason="length", usage=Usage(prompt.tokens, written)))
                        return
                    yield batch

    def model_name(self, route: Route) -> str:
        model = self._models.get(route.tier)
        return model.name if model else "extractive"


def text_of(batch: Tokens) -> str:
    return batch[0].text if len(batch) == 1 else "".join([token.text for token in batch])


def quotation(prompt: Prompt) -> str:
    """The best sentence of the best passage as the answer, or the notice that there is none."""
    spoken = prompts.spoken(prompt.language)
    if not prompt.evidence:
        return prompts.NOT_FOUND[spoken]
    best = prompt.evidence[0]
    start, end = best.sentence
    return prompts.QUOTED[spoken].format(quote=" ".join(plain(best.passage.text[start:end]).split()))
