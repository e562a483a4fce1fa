"""X1: the cache beside changing documents and many tenants: no stale answer, nothing of anybody else's."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from slipstream.bench.cache_service import ask, cache_service, cache_settings, put, written
from slipstream.bench.claims import Bar, Claim, Finding, Say, Side, percentile
from slipstream.bench.process import FAKE_MODELS, slipstream_server
from slipstream.service import Slipstream
from slipstream.settings import Settings

_TRIALS, _TENANTS, _CLIENTS, _REQUESTS, _QUESTIONS = 1_000, 10, 32, 10_000, 40
_CHANGES = ("edit", "delete", "add better", "none")
_PLACES = ("harbour", "library", "museum", "bakery", "station", "observatory", "greenhouse", "workshop")


@dataclass(slots=True)
class _Stale:
    answers: int = 0
    trials: int = 0
    kept: int = 0
    unchanged: int = 0
    examples: list[str] = field(default_factory=list)


async def measure(settings: Settings, say: Say) -> Finding:
    with tempfile.TemporaryDirectory(prefix="slipstream-trust-") as directory:
        root = Path(directory)
        stale = _Stale()
        async with cache_service(cache_settings(settings, root / "stale")) as service:
            busy = asyncio.create_task(_ingest_for_ever(service))
            try:
                for trial in range(_TRIALS):
                    if trial % 50 == 0:
                        say(f"changing documents: trial {trial} of {_TRIALS}")
                    await _trial(service, trial, stale)
            finally:
                busy.cancel()
                with suppress(asyncio.CancelledError):
                    await busy
        say(f"{_TENANTS} tenants, {_CLIENTS} clients, {_REQUESTS} requests")
        (root / "tenants").mkdir()
        crossed, first_ms, alone_ms, hits = await _tenants(root / "tenants")
    known, unknown = percentile(first_ms, 50), percentile(alone_ms, 50)
    return Finding(
        (
            Side("first ask of what another tenant has stored", "ms", tuple(first_ms)),
            Side("first ask of what nobody has stored", "ms", tuple(alone_ms)),
        ),
        (
            Bar(f"stale answers in {_TRIALS} trials", float(stale.answers), "", "<=", 0.0),
            Bar(
                "unchanged documents' paraphrases still served",
                100 * stale.kept / max(1, stale.unchanged),
                "%",
                ">=",
                50.0,
            ),
            Bar(f"answers, citations or hits across tenants in {_REQUESTS} requests", float(crossed), "", "<=", 0.0),
            Bar("requests served from the cache", 100 * hits / _REQUESTS, "%", "report"),
            Bar("first ask: stored by another tenant over stored by nobody", known / unknown, "×", "<=", 1.25),
            Bar("first ask: stored by nobody over stored by another", unknown / known, "×", "<=", 1.25),
        ),
        "documents of the same collection are ingested all the while; edits, deletions and better passages in turn",
    )


async def _trial(service: Slipstream, trial: int, stale: _Stale) -> None:
    """One document, asked about; one change; then asked in the same and in other words."""
    change = _CHANGES[trial % len(_CHANGES)]
    place = f"{_PLACES[trial % len(_PLACES)]} {_word(trial)}"
    before, after = f"{1_000 + trial} lamps", f"{5_000 + trial} lamps"
    same, other = _questions(place, chinese=trial % 2 == 1)
    name = f"place-{trial}.md"
    await put(service, name, _sentence(place, before, chinese=trial % 2 == 1))
    await ask(service, same)
    await written(service)
    if change == "edit":
        await put(service, name, _sentence(place, after, chinese=trial % 2 == 1))
    elif change == "delete":
        await service.delete_document(name, service.open_call("prove", None, None), collection="default")
    elif change == "add better":
        await put(service, f"better-{trial}.md", f"{same} {_sentence(place, after, chinese=trial % 2 == 1)}")
    stale.trials += 1
    for text in (other, same, other):
        asked = await ask(service, text)
        if change == "none":
            stale.unchanged += text is other
            stale.kept += text is other and asked.status == "hit"
        elif (change != "add better" and before in asked.answer.text) or (
            change == "add better" and asked.status == "hit" and not await _as_fresh(service, text, asked.answer.text)
        ):
            stale.answers += 1
    if change == "none":
        await service.delete_document(name, service.open_call("prove", None, None), collection="default")


async def _as_fresh(service: Slipstream, text: str, served: str) -> bool:
    """Whether the path without the cache says the same now."""
    return (await ask(service, text, cache="off")).answer.text == served


def _word(trial: int) -> str:
    """A name of its own for each trial."""
    syllables = ("ba", "ko", "ri", "mu", "te", "so", "na", "vi", "lo", "du")
    return "".join(syllables[int(digit)] for digit in f"{trial:04d}").capitalize()


def _sentence(place: str, count: str, *, chinese: bool) -> str:
    return f"{place} 一共有 {count}。" if chinese else f"The {place} has {count} in all."


def _questions(place: str, *, chinese: bool) -> tuple[str, str]:
    if chinese:
        return f"{place} 一共有多少 lamps？", f"{place} 总共有多少 lamps？"
    return f"How many lamps does the {place} have?", f"What number of lamps does the {place} have?"


async def _ingest_for_ever(service: Slipstream) -> None:
    count = 0
    while True:
        count += 1
        await put(service, f"noise-{count % 40}.md", f"Note {count}: the weather of day {count} was mild and dry.")
        await asyncio.sleep(0.02)


async def _tenants(directory: Path) -> tuple[int, list[float], list[float], int]:
    """Crossings; milliseconds of first asks of stored and of unstored questions; hits."""
    own = {**FAKE_MODELS, "SLIPSTREAM_CACHE__MODE": "auto", "SLIPSTREAM_CACHE__MIN_COST_MS": "0"}
    limits = httpx.Limits(max_connections=None)
    async with (
        slipstream_server(directory, own) as running,
        httpx.AsyncClient(base_url=running.base, trust_env=False, timeout=120, limits=limits) as http,
    ):
        for tenant in range(_TENANTS):
            for question in range(2 * _QUESTIONS):
                body = {"id": f"{question}.md", "text": _fact(tenant, question), "tenant": f"t{tenant}"}
                (await http.post("/v1/documents", json=body)).raise_for_status()
        stored, alone = await _first_asks(http)
        crossed = sum(crossing for crossing, _ in [*stored, *alone])
        waiting = iter(
            [(i % _TENANTS, i // _TENANTS % _QUESTIONS) for i in random.Random(0).sample(range(_REQUESTS), _REQUESTS)]
        )
        hits = 0

        async def client() -> None:
            nonlocal crossed, hits
            for tenant, question in waiting:
                crossing, hit, _ = await _asked(http, tenant, question)
                crossed += crossing
                hits += hit

        await asyncio.gather(*(client() for _ in range(_CLIENTS)))
    return crossed, [ms for _, ms in stored], [ms for _, ms in alone], hits


async def _first_asks(http: httpx.AsyncClient) -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
    """Tenant 0 stores half of the questions; then tenant 1 asks stored and unstored ones in turn, each once."""
    for question in range(_QUESTIONS):
        await _asked(http, 0, question)
    stored: list[tuple[int, float]] = []
    alone: list[tuple[int, float]] = []
    for question in range(_QUESTIONS):
        for number, kept in ((question, stored), (question + _QUESTIONS, alone)):
            crossing, hit, ms = await _asked(http, 1, number)
            kept.append((crossing + hit, ms))
    return stored, alone


async def _asked(http: httpx.AsyncClient, tenant: int, question: int) -> tuple[int, int, float]:
    """1 when anything of another tenant came back, 1 when it was a hit, milliseconds."""
    body = {
        "model": "slipstream",
        "messages": [{"role": "user", "content": f"What is the code word of room {_word(question)}?"}],
        "slipstream": {"tenant": f"t{tenant}"},
    }
    began = time.perf_counter()
    answer = (await http.post("/v1/chat/completions", json=body)).raise_for_status().json()
    took_ms = 1e3 * (time.perf_counter() - began)
    own = answer["slipstream"]
    texts = [answer["choices"][0]["message"]["content"], *(c["text"] for c in (*own["citations"], *own["evidence"]))]
    foreign = any(f"of tenant {_word(other)}" in text for text in texts for other in range(_TENANTS) if other != tenant)
    mine = any(f"of tenant {_word(tenant)}" in text for text in texts)
    return int(foreign or not mine), int(own["cache"]["status"] == "hit"), took_ms


def _fact(tenant: int, question: int) -> str:
    return f"The code word of room {_word(question)} is {_word(tenant * 100 + question)} of tenant {_word(tenant)}."


CLAIM = Claim("X1", "No answer outlives the documents it rests on, and none crosses tenants.", measure, 6)
