"""G4: continuous batching: eight streams decode together, and a newcomer's prefill does not stall them."""

from __future__ import annotations

import asyncio
import itertools
import time

import httpx

from slipstream.bench.claims import Bar, Claim, Finding, Say, Side, percentile
from slipstream.bench.demo_server import OPTIONS, demo_server
from slipstream.commands.client import Reply, ask
from slipstream.errors import Unavailable
from slipstream.settings import Settings

STREAMS, TOKENS, REPEATS, HEAD_START_S = 8, 96, 3, 1.0
QUESTIONS = tuple(
    f"Explain in detail, step by step, {topic}."
    for topic in (
        "how a request body is declared",
        "how dependencies work",
        "how to deploy with Docker",
        "what async and await do",
        "how query parameters are validated",
        "how OAuth2 with password flow works",
        "how response models filter data",
        "how background tasks run",
    )
)
_NEWCOMERS = (
    "How are cookies read, and which function declares them?",
    "How do I upload a file, and what is UploadFile for?",
    "How are headers declared, and are underscores converted?",
)
_SMALL = {**OPTIONS, "route": "small"}


async def measure(settings: Settings, say: Say) -> Finding:
    async with demo_server(settings) as demo:
        say("cold prompts, eight at once")
        cold = _rate(await _together(demo.http, QUESTIONS))
        alone, together, gaps = [], [], []
        for repeat in range(REPEATS):
            say(f"prompts in the prefix cache, repeat {repeat + 1} of {REPEATS}")
            alone.append(_rate_alone([await _one(demo.http, question) for question in QUESTIONS]))
            together.append(_rate(await _together(demo.http, QUESTIONS)))
            gaps.append(await _longest_gap_s(demo.http, _NEWCOMERS[repeat % len(_NEWCOMERS)]))
    ratio = percentile([b / a for a, b in zip(alone, together, strict=True)], 50)
    return Finding(
        (
            Side("one at a time, cached prompts", "tokens/s", tuple(alone)),
            Side("eight at once, cached prompts", "tokens/s", tuple(together)),
            Side("eight at once, cold prompts", "tokens/s", (cold,)),
            Side("longest gap on a stream while a newcomer prefills", "s", tuple(gaps)),
        ),
        (
            Bar("decode throughput, eight at once over one at a time", ratio, "×", ">=", 2.5),
            Bar("longest token gap", max(gaps), "s", "<=", 1.0),
        ),
        "decode throughput counts from the first token of a run to its last",
    )


async def _one(http: httpx.AsyncClient, question: str) -> Reply:
    return await ask(http, question, options=_SMALL, max_tokens=TOKENS)


async def _together(http: httpx.AsyncClient, questions: tuple[str, ...]) -> list[Reply]:
    return list(await asyncio.gather(*(_one(http, question) for question in questions)))


def _rate_alone(replies: list[Reply]) -> float:
    return sum(_tokens(r) for r in replies) / sum(r.total_s - (r.first_token_s or 0.0) for r in replies)


def _rate(replies: list[Reply]) -> float:
    """All began together, so their clocks agree."""
    first = min(r.first_token_s or r.total_s for r in replies)
    return sum(_tokens(r) for r in replies) / (max(r.total_s for r in replies) - first)


def _tokens(reply: Reply) -> int:
    return int(reply.final["usage"]["completion_tokens"])


async def _longest_gap_s(http: httpx.AsyncClient, newcomer: str) -> float:
    """Eight streams run; one more question comes; the longest gap any of the eight has from then on."""
    arrivals: list[list[float]] = [[] for _ in QUESTIONS]

    async def stream(index: int) -> None:
        note = arrivals[index].append
        await ask(
            http, QUESTIONS[index], options=_SMALL, max_tokens=TOKENS, on_text=lambda _: note(time.perf_counter())
        )

    streams = [asyncio.create_task(stream(index)) for index in range(STREAMS)]
    await asyncio.sleep(HEAD_START_S)
    came = time.perf_counter()
    await _one(http, f"{newcomer} {came:.0f}")
    await asyncio.gather(*streams)
    gaps = [b - a for times in arrivals for a, b in itertools.pairwise(times) if b >= came]
    if len(gaps) < STREAMS:
        raise Unavailable("The streams ended before the newcomer came: nothing was measured. Run it again.")
    return max(gaps)


CLAIM = Claim(
    "G4", "Eight streams share every step of the engine, and one more question does not stall them.", measure, 4
)
