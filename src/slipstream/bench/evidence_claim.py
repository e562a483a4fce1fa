"""X9: evidence first: cited passages reach the reader long before the model has read them."""

from __future__ import annotations

import asyncio
import itertools

import httpx

from slipstream.bench.claims import Bar, Claim, Finding, Say, Side, percentile
from slipstream.bench.demo_server import OPTIONS, demo_server
from slipstream.commands.client import Reply, ask
from slipstream.demo.questions import demo_questions
from slipstream.settings import Settings

USERS, TOKENS, LONG, HEAD_START_S = 8, 16, 256, 2.0
_SMALL = {**OPTIONS, "route": "small"}


async def measure(settings: Settings, say: Say) -> Finding:
    questions = [item.question for item in demo_questions()]
    async with demo_server(settings) as demo:
        await _asked(demo.http, questions[:3])
        say("one user")
        alone = await _asked(demo.http, questions)
        say(f"one user among {USERS} who are generating all the time")
        crowd = [asyncio.create_task(_generate(demo.http, i)) for i in range(USERS)]
        try:
            await asyncio.sleep(HEAD_START_S)
            among = await _asked(demo.http, questions)
        finally:
            for user in crowd:
                user.cancel()
            await asyncio.gather(*crowd, return_exceptions=True)
    sides = (
        _side("evidence, one user", [r.evidence_s for r in alone]),
        _side("first token, one user", [r.first_token_s for r in alone]),
        _side(f"evidence, {USERS} users generating", [r.evidence_s for r in among]),
        _side(f"first token, {USERS} users generating", [r.first_token_s for r in among]),
    )
    return Finding(
        sides,
        (
            Bar("evidence p50, one user", sides[0].median, "ms", "<=", 150.0),
            Bar(f"evidence p50, {USERS} users generating", sides[2].median, "ms", "<=", 500.0),
            Bar("evidence p95, one user", percentile(sides[0].samples, 95), "ms", "report"),
            Bar(f"evidence p95, {USERS} users generating", percentile(sides[2].samples, 95), "ms", "report"),
        ),
    )


async def _asked(http: httpx.AsyncClient, questions: list[str]) -> list[Reply]:
    """One after the other; the small tier writes each answer, whatever its language."""
    return [await ask(http, question, options=_SMALL, max_tokens=TOKENS) for question in questions]


async def _generate(http: httpx.AsyncClient, user: int) -> None:
    """Long answers without a pause, each from its own question."""
    for turn in itertools.count():
        await ask(http, f"Explain in detail how part {user} works, step {turn}.", options=_SMALL, max_tokens=LONG)


def _side(name: str, seconds: list[float | None]) -> Side:
    return Side(name, "ms", tuple(1e3 * s for s in seconds if s is not None))


CLAIM = Claim("X9", "Evidence with its best sentence marked is on screen before the model has prefilled.", measure, 4)
