"""Tokens → Answer: citations resolved as they stream, those to nothing dropped, unsupported answers flagged."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterator
from functools import lru_cache

from slipstream.answer.citations import CitationFilter
from slipstream.answer.generate import text_of
from slipstream.call import Call
from slipstream.errors import Bug
from slipstream.runtime.workers import Worker
from slipstream.types import (
    Answer,
    Citation,
    Evidence,
    Finished,
    Passages,
    Prompt,
    Route,
    Token,
    Tokens,
    Usage,
)

_WORD = re.compile(r"[^\W_\u3400-\u9fff]+|[\u3400-\u9fff]")
_HAN_PAIR = re.compile(r"(?=([\u3400-\u9fff]{2}))")
_INLINE_CHARACTERS = 2_000
"""Below this (about 0.1 ms) handing the work to a thread costs more than doing it."""
_ATTRIBUTED_OVERLAP = 0.5
"""Share of an uncited answer's terms that one passage must hold to count as its source."""


class Finisher:
    """Passes tokens on and closes the stream with the finished answer."""

    def __init__(self, model_name: Callable[[Route], str], worker: Worker) -> None:
        self._model_name = model_name
        self._worker = worker

    def citations(self, passages: Passages) -> tuple[Citation, ...]:
        """What the evidence chunk shows: every passage found, with its best sentence."""
        return tuple(_citation(index, item) for index, item in enumerate(passages.items, 1))

    async def __call__(
        self, tokens: AsyncIterator[Tokens], prompt: Prompt, route: Route, call: Call
    ) -> AsyncIterator[Tokens | Finished]:
        """Raises Bug when the model ends without saying why: an answer cut short is never passed off as whole."""
        markers = CitationFilter(prompt.shown)
        written: list[str] = []
        last: Token | None = None
        async for batch in tokens:
            text, last = text_of(batch), batch[-1]
            if not markers.lets_pass(text):
                batch = tuple(_filtered(markers, batch))
                text = text_of(batch)
            written.append(text)
            if text or last.finish_reason:
                yield batch
        if last is None or last.finish_reason is None:
            raise Bug("The model stopped without a finish reason.", code="generation_cut_short")
        with call.stage("finish") as span:
            text = "".join(written)
            cited = markers.cited or await self._attributed(text, prompt)
            span.detail["cited"] = len(cited)
        yield Finished(
            Answer(
                text=text,
                citations=tuple(_citation(n, prompt.evidence[n - 1]) for n in cited),
                finish_reason=last.finish_reason,
                usage=last.usage or Usage(),
                tier=route.tier if prompt.messages else "extractive",
                model=self._model_name(route),
                supported=bool(cited),
            )
        )

    async def _attributed(self, text: str, prompt: Prompt) -> list[int]:
        size = len(text) + sum(len(item.passage.text) for item in prompt.evidence)
        if size <= _INLINE_CHARACTERS:
            return _attributed(text, prompt)
        return await self._worker.run(_attributed, text, prompt)


def _filtered(markers: CitationFilter, batch: Tokens) -> Iterator[Token]:
    for token in batch:
        text = markers.feed(token.text)
        if token.finish_reason is not None:
            text += markers.flush()
        yield token if text == token.text else Token(text, token.count, token.finish_reason, token.usage)


def _citation(index: int, evidence: Evidence) -> Citation:
    return Citation(index, evidence.passage, evidence.sentence, evidence.score)


def _attributed(text: str, prompt: Prompt) -> list[int]:
    """For an answer without markers: the passage that holds most of its terms, if it holds half of them."""
    said = _words(text)
    if not said:
        return []
    shares = {n: len(said & _passage_words(prompt.evidence[n - 1].passage.text)) / len(said) for n in prompt.shown}
    best = max(sorted(shares), key=lambda n: shares[n], default=None)
    return [best] if best is not None and shares[best] >= _ATTRIBUTED_OVERLAP else []


def _words(text: str) -> set[str]:
    """Words, and Han characters one and two at a time."""
    lowered = text.lower()
    if lowered.isascii():  # there are no Han characters, and looking for their pairs would cost most of the time
        return set(_WORD.findall(lowered))
    return {*_WORD.findall(lowered), *_HAN_PAIR.findall(lowered)}


_passage_words = lru_cache(maxsize=1_024)(_words)
"""Few passages make up most of what is cited."""
