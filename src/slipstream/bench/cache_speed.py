"""How fast the cache is over HTTP, beside retrieval alone; and how lookup grows with what is stored."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

import httpx
import numpy as np

from slipstream.bench.cache_pairs import paraphrases
from slipstream.bench.claims import percentile
from slipstream.bench.datasets import shipped
from slipstream.bench.load_client import drive
from slipstream.bench.process import Running
from slipstream.cache.vectors import ScopeVectors, graph_of
from slipstream.errors import Unavailable

CHAT, SEARCH, DOCUMENTS = "/v1/chat/completions", "/v1/search", "/v1/documents"
SET = "xquad_en"
_EXACT, _OPEN_S, _CLIENTS, _LOOKUPS = 300, 15.0, 8, 2_000


@dataclass(frozen=True, slots=True)
class Speed:
    exact_ms: list[float]
    semantic_ms: list[float]
    search_ms: list[float]
    """Query encoding and retrieval alone, for the same texts, in turn with them."""
    capacity: float
    """Verified hits per second at saturation."""
    open_ms: list[float]
    """Under Poisson arrivals at half that."""


async def ingest_set(http: httpx.AsyncClient) -> None:
    waiting = iter(list(enumerate(shipped(SET).passages)))

    async def some() -> None:
        for index, text in waiting:
            (await http.post(DOCUMENTS, json={"id": f"{index}.txt", "text": text})).raise_for_status()

    await asyncio.gather(*(some() for _ in range(4)))


async def exact_ms(running: Running, http: httpx.AsyncClient) -> list[float]:
    """The same words again and again, one at a time."""
    body = _body(paraphrases()[0].question)
    (await http.post(CHAT, json=body)).raise_for_status()
    await drive(running.host, running.port, CHAT, body, requests=50, connections=1)
    load = await drive(running.host, running.port, CHAT, body, requests=_EXACT, connections=1)
    return [1e3 * timing.total_s for timing in load.timings]


async def verified(http: httpx.AsyncClient, seed: int = 0) -> Speed:
    """A server that holds nothing ready, so that every hit is verified by retrieval."""
    pairs = [pair for pair in paraphrases() if pair.set_name == SET]
    texts = []
    for pair in pairs:
        (await http.post(CHAT, json=_body(pair.question))).raise_for_status()
    await asyncio.sleep(0.2)  # what is kept is written beside the path
    semantic, search = [], []
    for pair in pairs:
        began = time.perf_counter()
        answer = (await http.post(CHAT, json=_body(pair.other_words))).raise_for_status().json()
        took_ms = 1e3 * (time.perf_counter() - began)
        began = time.perf_counter()
        (await http.post(SEARCH, json={"query": pair.other_words, "limit": 3})).raise_for_status()
        searched_ms = 1e3 * (time.perf_counter() - began)
        if answer["slipstream"]["cache"]["level"] == "semantic":
            texts.append(pair.other_words)
            semantic.append(took_ms)
            search.append(searched_ms)
    if not texts:
        raise Unavailable("No paraphrase was served; there is nothing to time.")
    capacity = await _capacity(http, texts)
    return Speed([], semantic, search, capacity, await _open_loop(http, texts, capacity / 2, random.Random(seed)))


async def _capacity(http: httpx.AsyncClient, texts: Sequence[str]) -> float:
    waiting = iter([text for _ in range(4) for text in texts])

    async def client() -> int:
        done = 0
        for text in waiting:
            (await http.post(CHAT, json=_body(text))).raise_for_status()
            done += 1
        return done

    began = time.perf_counter()
    done = sum(await asyncio.gather(*(client() for _ in range(_CLIENTS))))
    return done / (time.perf_counter() - began)


async def _open_loop(http: httpx.AsyncClient, texts: Sequence[str], rate: float, rng: random.Random) -> list[float]:
    """Times from when a request was due, so that a server that falls behind is seen to."""
    loop = asyncio.get_running_loop()
    took_ms: list[float] = []

    async def one(due: float, text: str) -> None:
        (await http.post(CHAT, json=_body(text))).raise_for_status()
        took_ms.append(1e3 * (loop.time() - due))

    began, due, running = loop.time(), loop.time(), []
    while due - began < _OPEN_S:
        due += rng.expovariate(rate)
        await asyncio.sleep(max(0.0, due - loop.time()))
        running.append(asyncio.create_task(one(due, rng.choice(texts))))
    await asyncio.gather(*running)
    return took_ms


def lookup_us(stored: int, dimensions: int = 384, seed: int = 0) -> list[float]:
    """Median microseconds of the nearest stored questions in one scope of so many, five runs."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((max(1, stored // 20), dimensions)).astype(np.float32)
    index = ScopeVectors(dimensions)
    kept = []
    for number in range(stored):
        row = centres[number % len(centres)] + 0.3 * rng.standard_normal(dimensions).astype(np.float32)
        row /= np.linalg.norm(row)
        index.add(str(number), row)
        if number % max(1, stored // _LOOKUPS) == 0:
            kept.append(row)
    if index.crowded:
        index.adopt(graph_of(*index.snapshot()))
    asked = [row + 0.01 * rng.standard_normal(dimensions).astype(np.float32) for row in kept]
    asked = [row / np.linalg.norm(row) for row in asked]
    medians = []
    for _ in range(5):
        took = []
        for row in asked:
            began = time.perf_counter()
            index.nearest(row, 4)
            took.append(1e6 * (time.perf_counter() - began))
        medians.append(percentile(took, 50))
    return medians


def _body(text: str) -> dict[str, object]:
    return {"model": "slipstream", "messages": [{"role": "user", "content": text}]}
