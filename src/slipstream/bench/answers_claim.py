"""answers: how often an answer over the demo corpus contains the gold string, by tier and language."""

from __future__ import annotations

from collections.abc import Sequence

import httpx

from slipstream.bench.claims import Bar, Claim, Finding, Say
from slipstream.bench.demo_server import OPTIONS, demo_server
from slipstream.bench.factual import contains
from slipstream.commands.client import ask
from slipstream.commands.demo import demo_settings
from slipstream.demo.questions import DemoQuestion, demo_questions
from slipstream.settings import Settings

TOKENS = 96


async def measure(settings: Settings, say: Say) -> Finding:
    items = demo_questions()
    tiers = ["extractive", "small", *(["large"] if demo_settings(settings).models.large else [])]
    bars = []
    async with demo_server(settings) as demo:
        for tier in tiers:
            say(f"{len(items)} questions to the {tier} tier")
            right = [await _right(demo.http, item, tier) for item in items]
            bars.extend(_shares(tier, items, right))
        evidence = [await _evidence_holds(demo.http, item) for item in items]
    bars.append(Bar("gold string in the cited passages", sum(evidence) / len(items), "", "report"))
    note = (
        ""
        if "large" in tiers
        else "the bilingual model is not pulled: `slipstream models pull qwen2.5-coder-1.5b-instruct`"
    )
    return Finding((), tuple(bars), note)


async def _right(http: httpx.AsyncClient, item: DemoQuestion, tier: str) -> bool:
    reply = await ask(http, item.question, options={**OPTIONS, "route": tier}, max_tokens=TOKENS)
    return contains(reply.text, item.answers)


async def _evidence_holds(http: httpx.AsyncClient, item: DemoQuestion) -> bool:
    reply = await ask(http, item.question, options={**OPTIONS, "route": "extractive"})
    return any(contains(citation["text"], item.answers) for citation in reply.citations)


def _shares(tier: str, items: Sequence[DemoQuestion], right: Sequence[bool]) -> list[Bar]:
    bars = []
    for language in ("en", "zh"):
        of = [ok for item, ok in zip(items, right, strict=True) if item.language == language]
        bars.append(
            Bar(
                f"{tier}, {language}: answers with the gold string ({len(of)} questions)",
                sum(of) / len(of),
                "",
                "report",
            )
        )
    return bars


CLAIM = Claim("answers", "Answers over the demo corpus contain the right string.", measure, 12)
