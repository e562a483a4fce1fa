"""R11: sixteen users share batches, of queries to encode and of pairs to score, and one alone pays nothing for it."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TypeAlias, TypeVar

from slipstream.bench.claims import Bar, Claim, Finding, Say, Side, percentile
from slipstream.bench.datasets import shipped
from slipstream.bench.random_cross_encoder import write_random_cross_encoder
from slipstream.build import build_cross_encoder, build_encoder, query_batcher
from slipstream.errors import ConfigError
from slipstream.models.cross_encoder import OpenVinoCrossEncoder
from slipstream.models.encoder_directory import EncoderDirectory
from slipstream.models.provision import Provisioner
from slipstream.settings import Settings

USERS, CANDIDATES = 16, 12
SHORTEST, LONGEST = 16, 400
"""Tokens of a pair."""
QUERY_ROUNDS, QUERIES_PER_USER = 5, 10
RANKING_ROUNDS = 3
ALONE_QUERIES, ALONE_RANKINGS = 200, 20
T = TypeVar("T")
Job: TypeAlias = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class _Side:
    """One way of working: what each user does, one thing after another, and what a user alone does."""

    name: str
    users: Sequence[Sequence[Job]]
    alone: Job
    rates: list[float] = field(default_factory=list)
    """Jobs per second of all users together, one sample a round."""
    alone_ms: list[float] = field(default_factory=list)
    shared_ms: list[float] = field(default_factory=list)
    """Each job of each user while all work."""

    async def together(self) -> None:
        began = time.perf_counter()
        await asyncio.gather(*(self._user(jobs) for jobs in self.users))
        self.rates.append(sum(map(len, self.users)) / (time.perf_counter() - began))

    async def _user(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            began = time.perf_counter()
            await job()
            self.shared_ms.append(1e3 * (time.perf_counter() - began))

    async def lone(self) -> None:
        began = time.perf_counter()
        await self.alone()
        self.alone_ms.append(1e3 * (time.perf_counter() - began))

    def forget(self) -> None:
        for samples in (self.rates, self.alone_ms, self.shared_ms):
            samples.clear()

    def sides(self, unit: str) -> tuple[Side, Side]:
        return Side(self.name, unit, tuple(self.rates)), Side(f"{self.name}, alone", "ms", tuple(self.alone_ms))


async def _compare(shared: _Side, single: _Side, rounds: int, alone: int) -> None:
    """Both sides by turns, the first round to warm them up."""
    for number in range(rounds + 1):
        for side in (shared, single) if number % 2 else (single, shared):
            await side.together()
        if not number:
            shared.forget()
            single.forget()
    for number in range(alone):
        for side in (shared, single) if number % 2 else (single, shared):
            await side.lone()


def _gain(shared: _Side, single: _Side) -> float:
    return median(a / b for a, b in zip(shared.rates, single.rates, strict=True))


def _lone(shared: _Side, single: _Side) -> float:
    return median(shared.alone_ms) / median(single.alone_ms)


async def measure(settings: Settings, say: Say) -> Finding:
    provisioner = Provisioner(settings.models.cache_dir, offline=settings.models.offline)
    say("query encoding: together, one by one, alone")
    query, lone_query = await _queries(settings, provisioner)
    say("cross-encoding: together, a padded batch a user, alone")
    pairs, padded = await _pairs(settings, provisioner)
    return Finding(
        (
            *query.sides("queries/s"),
            *lone_query.sides("queries/s"),
            *pairs.sides("rankings/s"),
            *padded.sides("rankings/s"),
        ),
        (
            Bar("query encoding, shared over one by one", _gain(query, lone_query), "×", ">=", 1.8),
            Bar("cross-encoding, shared over a padded batch a user", _gain(pairs, padded), "×", ">=", 1.3),
            Bar("lone query p50 over no batcher", _lone(query, lone_query), "×", "<=", 1.05),
            Bar("lone ranking p50 over no batcher", _lone(pairs, padded), "×", "<=", 1.05),
            Bar("a ranking among sixteen users, shared, p50", percentile(pairs.shared_ms, 50), "ms", "report"),
            Bar("a ranking among sixteen users, shared, p99", percentile(pairs.shared_ms, 99), "ms", "report"),
            Bar("a ranking among sixteen users, padded, p50", percentile(padded.shared_ms, 50), "ms", "report"),
            Bar("a ranking among sixteen users, padded, p99", percentile(padded.shared_ms, 99), "ms", "report"),
        ),
        f"{USERS} users at once, {CANDIDATES} candidates of {SHORTEST} to {LONGEST} tokens each; cross-encoder of "
        "MiniLM-L6's shape with random weights; alone, the side without a batcher sorts by length, too",
    )


async def _queries(settings: Settings, provisioner: Provisioner) -> tuple[_Side, _Side]:
    encoder = build_encoder(settings, provisioner)
    texts = [item.question for item in shipped("xquad_en").items[: USERS * QUERIES_PER_USER]]
    await encoder.warm_up()
    try:
        async with query_batcher(encoder, settings) as batcher:

            async def one(text: str) -> object:
                return await encoder.encode([text], "query")

            of_user = [texts[user::USERS] for user in range(USERS)]
            shared = _Side(
                "queries, batched", [_jobs(batcher.submit, own) for own in of_user], _job(batcher.submit, texts[0])
            )
            single = _Side("queries, one by one", [_jobs(one, own) for own in of_user], _job(one, texts[0]))
            await _compare(shared, single, QUERY_ROUNDS, ALONE_QUERIES)
            return shared, single
    finally:
        await encoder.close()


async def _pairs(settings: Settings, provisioner: Provisioner) -> tuple[_Side, _Side]:
    tokenizer = EncoderDirectory(provisioner.ensure(settings.models.encoder, "encoder").path).tokenizer
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slipstream-r11-")))
        made = write_random_cross_encoder(directory / "model", tokenizer)
        models = settings.models.model_copy(update={"cross_encoder": str(made)})
        ours = build_cross_encoder(settings.model_copy(update={"models": models}), provisioner)
        if ours is None or ours.batcher is None:
            raise ConfigError("The random cross-encoder was not built as a local one.")
        padded = OpenVinoCrossEncoder(made, settings.cross_encoder, pass_tokens=CANDIDATES * 2 * LONGEST)
        stack.push_async_callback(ours.model.close)
        stack.push_async_callback(padded.close)
        await ours.model.warm_up()
        await padded.warm_up()
        await stack.enter_async_context(ours.batcher)
        draw = random.Random(0)
        asked = [[_pair(draw.randint(SHORTEST, LONGEST)) for _ in range(CANDIDATES)] for _ in range(USERS)]
        shared = _Side(
            "rankings, batched", [[_job(ours.score_pairs, own)] for own in asked], _job(ours.score_pairs, asked[0])
        )
        single = _Side(
            "rankings, a padded batch a user",
            [[_job(padded.score, own)] for own in asked],
            _job(ours.model.score, asked[0]),
        )
        await _compare(shared, single, RANKING_ROUNDS, ALONE_RANKINGS)
        return shared, single


def _pair(tokens: int) -> tuple[str, str]:
    """A pair of so many tokens: four of template, four of query."""
    return "a a a a", " ".join(["a"] * (tokens - 8))


def _job(work: Callable[[T], Awaitable[object]], item: T) -> Job:
    async def run() -> object:
        return await work(item)

    return run


def _jobs(work: Callable[[T], Awaitable[object]], items: Sequence[T]) -> list[Job]:
    return [_job(work, item) for item in items]


CLAIM = Claim("R11", "Requests of many users share batches, and one alone does not wait for company.", measure, 2.5)
