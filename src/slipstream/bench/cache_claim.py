"""S2: the answer cache: what it serves rightly and wrongly on labelled pairs, and what a hit costs."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import httpx

from slipstream.bench.cache_pairs import gptcache_pairs, paws_pairs
from slipstream.bench.cache_quality import Tally, alone, served_negatives, served_paraphrases
from slipstream.bench.cache_service import ask, cache_service, cache_settings, environment, put, put_set
from slipstream.bench.cache_speed import Speed, exact_ms, ingest_set, lookup_us, verified
from slipstream.bench.claims import Bar, Claim, Finding, Say, Side, percentile
from slipstream.bench.eviction_trace import replay_all
from slipstream.bench.negatives import SETS, hard_negatives
from slipstream.bench.process import slipstream_server
from slipstream.errors import Bug
from slipstream.service import Slipstream
from slipstream.settings import Settings

_NEGATIVES, _AT_ONCE = 1_000, 64


async def measure(settings: Settings, say: Say) -> Finding:
    with tempfile.TemporaryDirectory(prefix="slipstream-cache-") as directory:
        root = Path(directory)
        async with cache_service(cache_settings(settings, root / "quality")) as service:
            bars, sides = await _quality(service, say)
        say("exact hits over HTTP")
        speed_bars, speed_sides = await _speed(settings, root, say)
        bars, sides = [*bars, *speed_bars], [*sides, *speed_sides]
    say("lookup at 1,000 and at 100,000 entries")
    few, many = await asyncio.to_thread(lookup_us, 1_000), await asyncio.to_thread(lookup_us, 100_000)
    sides += [Side("lookup, 1,000 entries", "µs", tuple(few)), Side("lookup, 100,000 entries", "µs", tuple(many))]
    bars.append(Bar("lookup at 100,000 entries over 1,000", percentile(many, 50) / percentile(few, 50), "×", "<=", 2.0))
    for name, replay in replay_all().items():
        bars.append(Bar(f"eviction by {name}: seconds saved on a Zipf trace", 100 * replay.saved, "%", "report"))
    return Finding(tuple(sides), tuple(bars), "hard negatives and PAWS-X in the halves that nothing was tuned on")


async def _quality(service: Slipstream, say: Say) -> tuple[list[Bar], list[Side]]:
    cache = service.parts.cache
    if cache is None:
        raise Bug("The service was built without an answer cache.")
    say("labelled pairs without documents")
    paws = await alone(service.parts.encoder, cache.verifier, [p for p in paws_pairs("held") if not p.same])
    gpt = await alone(service.parts.encoder, cache.verifier, gptcache_pairs())
    for name in SETS:
        say(f"ingesting {name}")
        await put_set(service, name)
    say("paraphrases over their documents")
    found = {language: await served_paraphrases(service, language) for language in ("en", "zh")}
    say("hard negatives over their documents")
    negatives = await served_negatives(service, hard_negatives(_NEGATIVES, 3, lambda item: item % 2 == 1))
    say(f"{_AT_ONCE} equal questions at once")
    generations = await _generations(service)
    share = sum(t.served for t in found.values()) / sum(t.of for t in found.values())
    bars = [
        Bar("false hits on PAWS-X zh negatives", paws.percent, "%", "<=", 0.5),
        Bar("false hits on hard negatives", negatives.percent, "%", "<=", 0.5),
        Bar("paraphrases served, both languages", 100 * share, "%", ">=", 70.0),
        Bar("paraphrases served, English", found["en"].percent, "%", "report"),
        Bar("paraphrases served, Chinese", found["zh"].percent, "%", "report"),
        Bar("English pairs served without documents", gpt.percent, "%", ">=", 50.0),
        Bar(f"generations for {_AT_ONCE} equal questions at once", generations, "", "<=", 1.0),
    ]
    return bars, [_side("paraphrases refused by", t, language) for language, t in found.items()]


def _side(name: str, tally: Tally, language: str) -> Side:
    most = ", ".join(f"{check} {count}" for check, count in tally.by_check.most_common(3))
    return Side(f"{name} ({language}): {most}", "pairs", (float(tally.of - tally.served),))


async def _generations(service: Slipstream) -> float:
    await put(
        service, "single.md", "The lighthouse keeper feeds nineteen grey cats every evening.", collection="single"
    )
    texts = ["How many grey cats does the lighthouse keeper feed?"] * _AT_ONCE
    asked = await asyncio.gather(*(ask(service, text, collections=["single"]) for text in texts))
    return float(sum(a.status == "miss" for a in asked))


async def _speed(settings: Settings, root: Path, say: Say) -> tuple[list[Bar], list[Side]]:
    exact: list[float] = []
    (root / "ready").mkdir()
    async with slipstream_server(root / "ready", environment(settings)) as running, _client(running.base) as http:
        text = "The lighthouse keeper feeds nineteen grey cats every evening."
        (await http.post("/v1/documents", json={"id": "cats.md", "text": text})).raise_for_status()
        exact = await exact_ms(running, http)
    say("verified hits over HTTP, in turn with retrieval alone")
    (root / "verified").mkdir()
    nothing_ready = environment(settings, {"SLIPSTREAM_CACHE__RECENT_MIB": "0"})
    async with slipstream_server(root / "verified", nothing_ready) as running, _client(running.base) as http:
        await ingest_set(http)
        speed = await verified(http)
    return _speed_bars(exact, speed), [
        Side("exact hit, whole response", "ms", tuple(exact)),
        Side("verified semantic hit, whole response", "ms", tuple(speed.semantic_ms)),
        Side("query encoding and retrieval alone", "ms", tuple(speed.search_ms)),
        Side("verified hit at half the capacity, from when it was due", "ms", tuple(speed.open_ms)),
    ]


def _speed_bars(exact: list[float], speed: Speed) -> list[Bar]:
    semantic = percentile(speed.semantic_ms, 50)
    return [
        Bar("exact hit p50", percentile(exact, 50), "ms", "<=", 3.0),
        Bar("verified hit p50 over retrieval alone", semantic / percentile(speed.search_ms, 50), "×", "<=", 1.5),
        Bar("p99 at half the capacity over that p50", percentile(speed.open_ms, 99) / semantic, "×", "<=", 5.0),
        Bar("verified hits at saturation", speed.capacity, "/s", "report"),
        Bar("retrievals alone, one at a time", 1e3 / percentile(speed.search_ms, 50), "/s", "report"),
    ]


def _client(base: str) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=None)
    return httpx.AsyncClient(base_url=base, trust_env=False, timeout=120, limits=limits)


CLAIM = Claim(
    "S2", "A cached answer serves paraphrases, not look-alikes, and costs about what retrieval does.", measure, 12
)
