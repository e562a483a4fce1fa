"""overhead: what Slipstream adds to a request beyond models and stores, against a bare endpoint of the same bytes."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from slipstream.bench.claims import Bar, Claim, Finding, Say, Side
from slipstream.bench.load_client import drive
from slipstream.bench.process import FAKE_MODELS, Running, bare_server, slipstream_server
from slipstream.bench.scrape import scrape
from slipstream.errors import Unavailable
from slipstream.settings import Settings

PATH = "/v1/chat/completions"
TOKENS, REPEATS, REQUESTS, CONNECTIONS, ALONE = 32, 5, 600, 16, 150
BODY = {
    "model": "slipstream",
    "messages": [{"role": "user", "content": "Which numbers does the long sentence count?"}],
    "stream": True,
    "max_tokens": TOKENS,
}
_DOCUMENT = "The long sentence counts the numbers " + ", ".join(f"number {i}" for i in range(1, 60)) + "."
_ADMIT_ALL = {"SLIPSTREAM_ADMISSION__MAX_TOKENS": "1000000", "SLIPSTREAM_ADMISSION__MAX_QUEUED_TOKENS": "1000000"}


@dataclass(frozen=True, slots=True)
class _Rates:
    busy: list[float]
    """Requests per second at CONNECTIONS."""
    alone_ms: list[float]
    """Median of the whole time, one request at a time."""


async def measure(settings: Settings, say: Say) -> Finding:
    with tempfile.TemporaryDirectory(prefix="slipstream-overhead-") as directory:
        root = Path(directory)
        async with (
            slipstream_server(root, {**FAKE_MODELS, **_ADMIT_ALL}) as ours,
            httpx.AsyncClient(base_url=ours.base, trust_env=False) as http,
        ):
            (await http.post("/v1/documents", json={"id": "numbers.md", "text": _DOCUMENT})).raise_for_status()
            chunks = root / "chunks"
            answer = (await http.post(PATH, json=BODY)).raise_for_status().content
            chunks.write_bytes(answer)
            async with bare_server(chunks, root / "bare.log") as bare:
                say("requests per second, interleaved")
                product, plain = await _interleaved(ours, bare)
        say("event-loop lag with ingestion running, on the embedded store")
        (root / "edge").mkdir()
        environment = {**FAKE_MODELS, **_ADMIT_ALL, "SLIPSTREAM_DATA__STORE": "qdrant-edge"}
        async with (
            slipstream_server(root / "edge", environment) as ours,
            httpx.AsyncClient(base_url=ours.base, trust_env=False) as http,
        ):
            (await http.post("/v1/documents", json={"id": "numbers.md", "text": _DOCUMENT})).raise_for_status()
            lag_ms = await _lag_ms(ours, http)
    ratio = [a / b for a, b in zip(product.busy, plain.busy, strict=True)]
    added = [a - b for a, b in zip(product.alone_ms, plain.alone_ms, strict=True)]
    return Finding(
        (
            Side("slipstream, fake models", "requests/s", tuple(product.busy)),
            Side("bare endpoint, same bytes", "requests/s", tuple(plain.busy)),
            Side("slipstream, alone", "ms", tuple(product.alone_ms)),
            Side("bare endpoint, alone", "ms", tuple(plain.alone_ms)),
        ),
        (
            Bar("share of the bare endpoint's requests/s", sorted(ratio)[len(ratio) // 2], "", ">=", 0.5),
            Bar("added p50 alone", sorted(added)[len(added) // 2], "ms", "<=", 5.0),
            Bar("event-loop lag p99, load and ingestion", lag_ms, "ms", "<=", 20.0),
        ),
        f"{TOKENS} tokens streamed, {CONNECTIONS} connections; exact store in memory for the rates, embedded store for "
        "the lag (its bucket's upper bound); the bare endpoint writes each event as it comes, Slipstream what has "
        "gathered while it was busy",
    )


async def _interleaved(ours: Running, bare: Running) -> tuple[_Rates, _Rates]:
    rates = {ours: _Rates([], []), bare: _Rates([], [])}
    for repeat in range(REPEATS + 1):
        for server, kept in rates.items():
            busy = await drive(server.host, server.port, PATH, BODY, requests=REQUESTS, connections=CONNECTIONS)
            alone = await drive(server.host, server.port, PATH, BODY, requests=ALONE, connections=1)
            if any(t.status != httpx.codes.OK or not t.whole for t in (*busy.timings, *alone.timings)):
                raise Unavailable("Some requests were not answered; the comparison would mean nothing.")
            if repeat:  # the first round warms both up
                kept.busy.append(busy.per_second)
                kept.alone_ms.append(alone.total_ms(0.5))
    return rates[ours], rates[bare]


async def _lag_ms(ours: Running, http: httpx.AsyncClient) -> float:
    before = await scrape(http)
    ingesting = asyncio.create_task(_ingest_for_ever(ours.base))
    try:
        await drive(ours.host, ours.port, PATH, BODY, requests=4 * REQUESTS, connections=CONNECTIONS)
    finally:
        ingesting.cancel()
        with suppress(asyncio.CancelledError):
            await ingesting
    return 1e3 * (await scrape(http)).quantile_above(before, "slipstream_loop_lag_seconds", 0.99)


async def _ingest_for_ever(base: str) -> None:
    async with httpx.AsyncClient(base_url=base, trust_env=False) as http:
        count = 0
        while True:
            count += 1
            text = "\n\n".join(
                f"Paragraph {i} of document {count} says that value {i * count} is fine." for i in range(40)
            )
            body = {"id": f"other-{count % 50}.md", "collection": "other", "text": text}
            (await http.post("/v1/documents", json=body)).raise_for_status()


CLAIM = Claim(
    "overhead",
    "Slipstream's own part of a request is small beside a bare endpoint of the same framework.",
    measure,
    3,
)
