"""X9: evidence first: cited passages reach the reader long before the model has read them."""

from __future__ import annotations

import asyncio

import httpx

from slipstream.bench.claims import Bar, Claim, Finding, Say, Side, percentile
from slipstream.bench.demo_server import OPTIONS, demo_server
from slipstream.bench.factual import factual_questions
from slipstream.commands.client import Reply, ask
from slipstream.settings import Settings

USERS, EACH, TOKENS = 8, 5, 64


async def measure(settings: Settings, say: Say) -> Finding:
    questions = [item.question for item in factual_questions()]
    async with demo_server(settings) as demo:
        await _user(demo.http, questions[:3])
        say("one user")
        alone = await _user(demo.http, questions)
        say(f"{USERS} users, all generating")
        crowds = (questions[i::USERS][:EACH] for i in range(USERS))
        crowd = [reply for replies in await asyncio.gather(*(_user(demo.http, q) for q in crowds)) for reply in replies]
    sides = (
        _side("evidence, one user", [r.evidence_s for r in alone]),
        _side("first token, one user", [r.first_token_s for r in alone]),
        _side(f"evidence, {USERS} users generating", [r.evidence_s for r in crowd]),
        _side(f"first token, {USERS} users generating", [r.first_token_s for r in crowd]),
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


async def _user(http: httpx.AsyncClient, questions: list[str]) -> list[Reply]:
    return [await ask(http, question, options=OPTIONS, max_tokens=TOKENS) for question in questions]


def _side(name: str, seconds: list[float | None]) -> Side:
    return Side(name, "ms", tuple(1e3 * s for s in seconds if s is not None))


CLAIM = Claim("X9", "Evidence with its best sentence marked is on screen before the model has prefilled.", measure, 4)
