"""What the cache serves that it should not, and what it should: labelled pairs, alone and over their documents."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from slipstream.bench.cache_pairs import Half, Pair, paraphrases
from slipstream.bench.cache_service import ask, written
from slipstream.bench.negatives import Negative
from slipstream.cache.meaning import closeness
from slipstream.cache.verify import Verifier
from slipstream.models.base import Encoder
from slipstream.service import Slipstream
from slipstream.types import Encoding

_BATCH = 64
_AT_ONCE = 4


@dataclass(slots=True)
class Tally:
    served: int = 0
    of: int = 0
    by_check: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def count(self, served: bool, check: str = "", example: str = "") -> None:
        self.of += 1
        self.served += served
        if served and example:
            self.examples.append(example)
        if not served:
            self.by_check[check] += 1

    @property
    def percent(self) -> float:
        return 100 * self.served / max(1, self.of)


async def alone(encoder: Encoder, verifier: Verifier, pairs: Sequence[Pair]) -> Tally:
    """Form and meaning only, with the thresholds for pairs that no document vouches for."""
    texts = sorted({text for pair in pairs for text in (pair.first, pair.second)}, key=len)
    encoded: dict[str, Encoding] = {}
    for start in range(0, len(texts), _BATCH):
        batch = texts[start : start + _BATCH]
        encoded.update(zip(batch, await encoder.encode(batch, "query"), strict=True))
    tally = Tally()
    for pair in pairs:
        verdict, form = verifier.form(pair.first, pair.second, pair.language, pair.language)
        if verdict.passed:
            one, other = encoded[pair.first], encoded[pair.second]
            close = closeness(one.tokens, one.offsets, other.tokens, other.offsets, form)
            verdict = verifier.judge(close, form, pair.language, alone=True)
        tally.count(verdict.passed, verdict.check, f"{pair.first} | {pair.second}")
    return tally


async def served_paraphrases(service: Slipstream, language: str, half: Half | None = None) -> Tally:
    """Asks each question, then its paraphrase: a hit counts when it brings the question's own answer."""
    tally = Tally()
    chosen = [p for p in paraphrases(half) if p.language == language]

    async def one(index: int) -> None:
        pair = chosen[index]
        first = await ask(service, pair.question, collections=[pair.set_name])
        await written(service)
        second = await ask(service, pair.other_words, collections=[pair.set_name])
        decision = second.answer.cache
        hit = second.status == "hit" and second.answer.text == first.answer.text
        refused = [v for v in decision.verdicts if not v.passed] if decision is not None else []
        tally.count(hit, refused[0].check if refused else "no candidate")

    await _spread(one, len(chosen))
    return tally


async def served_negatives(service: Slipstream, negatives: Sequence[Negative]) -> Tally:
    """Asks each question, then the one that was changed: any hit is a false one."""
    tally = Tally()

    async def one(index: int) -> None:
        pair = negatives[index]
        first = await ask(service, pair.question, collections=[pair.set_name])
        await written(service)
        second = await ask(service, pair.changed, collections=[pair.set_name])
        refused = [v for v in second.answer.cache.verdicts if not v.passed] if second.answer.cache is not None else []
        false_hit = second.status == "hit" and first.answer.cache is not None
        example = f"{pair.change}: {pair.question} | {pair.changed}"
        tally.count(false_hit, refused[0].check if refused else "no candidate", example)

    await _spread(one, len(negatives))
    return tally


async def _spread(one: Callable[[int], Awaitable[None]], count: int) -> None:
    waiting = iter(range(count))

    async def some() -> None:
        for index in waiting:
            await one(index)

    await asyncio.gather(*(some() for _ in range(_AT_ONCE)))
