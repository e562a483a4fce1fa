"""R12: the two legs of a hybrid search really run at the same time: its wall is the slower leg's, not the sum."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from slipstream.answer.retrieve import Retriever
from slipstream.bench.claims import Bar, Claim, Finding, Say, Side
from slipstream.bench.datasets import SHIPPED, shipped
from slipstream.bench.quality import index
from slipstream.build import build_encoder, build_store, query_batcher
from slipstream.call import Call, Deadline
from slipstream.models.provision import Provisioner
from slipstream.settings import Settings
from slipstream.text.language import language_of
from slipstream.types import Mode, Query, Question, Scope, SearchOptions

MODES: tuple[Mode, ...] = ("dense", "sparse", "hybrid")
CONCURRENCY, QUERIES, ROUNDS = (1, 8), 48, 5
_TENANT = "quality"
"""Whose passages `index` stores."""


async def measure(settings: Settings, say: Say) -> Finding:
    provisioner = Provisioner(settings.models.cache_dir, offline=settings.models.offline)
    encoder = build_encoder(settings, provisioner)
    await encoder.warm_up()
    with tempfile.TemporaryDirectory(prefix="slipstream-hybrid-") as directory:
        here = settings.model_copy(update={"data": settings.data.model_copy(update={"dir": Path(directory)})})
        store = build_store(here, encoder)
        await store.open()
        try:
            questions: list[str] = []
            for name in SHIPPED:
                say(f"indexing {name}")
                data = shipped(name)
                await index(data, store, encoder, lambda _: None)
                questions += [item.question for item in data.sample(QUERIES // len(SHIPPED)).items]
            async with query_batcher(encoder, here) as batcher:
                retriever = Retriever(store, batcher.submit, here.retrieval)
                walls = {users: await _interleaved(retriever, questions, users, say) for users in CONCURRENCY}
        finally:
            await store.close()
            await encoder.close()
    return _finding(walls)


async def _interleaved(retriever: Retriever, questions: Sequence[str], users: int, say: Say) -> dict[Mode, list[float]]:
    """Milliseconds of every search, by mode; the modes take turns within each round."""
    walls: dict[Mode, list[float]] = {mode: [] for mode in MODES}
    for number in range(ROUNDS + 1):
        say(f"{users} at once, round {number} of {ROUNDS}")
        for mode in MODES:
            waiting = list(questions)
            taken: list[float] = []
            await asyncio.gather(*(_user(retriever, waiting, mode, taken) for _ in range(users)))
            if number:  # the first round warms up
                walls[mode] += taken
    return walls


async def _user(retriever: Retriever, waiting: list[str], mode: Mode, taken: list[float]) -> None:
    while waiting:
        text = waiting.pop()
        question = Question(text, Scope(_TENANT), search=SearchOptions(mode))
        began = time.perf_counter()
        await retriever(Query(text, language_of(text)), question, Call(_TENANT, Deadline.after(None)))
        taken.append(1e3 * (time.perf_counter() - began))


def _finding(walls: dict[int, dict[Mode, list[float]]]) -> Finding:
    sides: list[Side] = []
    bars: list[Bar] = []
    for users, by_mode in walls.items():
        own = {mode: Side(f"{mode}, {users} at once", "ms", tuple(taken)) for mode, taken in by_mode.items()}
        sides += own.values()
        slower = max(own["dense"].median, own["sparse"].median)
        both = own["dense"].median + own["sparse"].median
        bars.append(
            Bar(f"hybrid over the slower leg, p50, {users} at once", own["hybrid"].median / slower, "×", "<=", 1.2)
        )
        bars.append(Bar(f"the sum of both over the slower, {users} at once", both / slower, "×", "report"))
    return Finding(
        tuple(sides),
        tuple(bars),
        f"{QUERIES} questions over the shipped sets, {ROUNDS} rounds, modes taking turns; each leg's wall includes the "
        "query's encoding, which late interaction needs in any mode",
    )


CLAIM = Claim("R12", "A hybrid search takes as long as its slower leg, not as both.", measure, 4)
