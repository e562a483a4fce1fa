"""The cascade: late interaction narrows, the cross-encoder decides, and its failure costs the order only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from answer.path import Path, new_call, path, question

from slipstream.answer.cross_encode import CrossEncode
from slipstream.answer.late_interaction import Floor
from slipstream.answer.plan import Planner
from slipstream.answer.rerank import Reranker
from slipstream.answer.score_cache import ScoreCache
from slipstream.call import Call
from slipstream.errors import Bug, ConfigError, InvalidRequest, Overloaded, SlipstreamError, Unavailable
from slipstream.models.fake_cross_encoder import FakeCrossEncoder
from slipstream.runtime.batcher import Batcher
from slipstream.runtime.circuit import Circuit
from slipstream.runtime.deadline import Ladder, StageCosts
from slipstream.runtime.workers import Worker
from slipstream.settings import RetrievalSettings
from slipstream.types import Candidate, Candidates, Passages, Query

pytestmark = pytest.mark.anyio

TEXTS = [f"Leave rule {i}: an employee takes {i} days." + " Padding." * i for i in range(1, 9)]


def score_of(place: int) -> float:
    return 1 - place / 10


@dataclass
class Scores:
    """Likes what stands early in TEXTS; remembers what it was asked; fails as told."""

    fail: SlipstreamError | None = None
    hang: bool = False
    asked: list[int] = field(default_factory=list)

    async def __call__(self, pairs: Sequence[tuple[str, str]]) -> Sequence[float]:
        self.asked.append(len(pairs))
        if self.hang:
            await asyncio.Event().wait()
        if self.fail is not None:
            raise self.fail
        return [score_of(TEXTS.index(text)) for _, text in pairs]


@dataclass
class Cascade:
    path: Path
    rerank: Reranker
    scores: Scores
    candidates: Candidates

    async def __call__(self, call: Call | None = None, **options: object) -> Passages:
        asked = question("How many days takes an employee?", **options)
        return await self.rerank(self.candidates, asked, call or new_call())


@asynccontextmanager
async def cascade(
    scores: Scores | None = None,
    retrieval: RetrievalSettings | None = None,
    floor: Floor | None = None,
    timeout_s: float = 5.0,
    cached: int = 0,
    circuit: Circuit | None = None,
) -> AsyncIterator[Cascade]:
    scores = scores or Scores()
    retrieval = retrieval or RetrievalSettings(cross_encoder_limit=4)
    async with path() as made:
        passages = await made.add(*TEXTS)
        [encoding] = await made.encoder.encode(["How many days takes an employee?"], "query")
        items = tuple(Candidate(p.id, 1.0 / rank) for rank, p in enumerate(passages, 1))
        candidates = Candidates(Query("How many days takes an employee?", "en"), encoding, items)
        encode = CrossEncode("test", scores, timeout_s, cached, circuit)
        worker = Worker("test-rerank")
        rerank = Reranker(made.store, retrieval, worker, floor or Floor(-1.0, -1.0), encode)
        try:
            yield Cascade(made, rerank, scores, candidates)
        finally:
            await worker.close()


def places(passages: Passages) -> list[int]:
    return [TEXTS.index(item.passage.text) for item in passages.items]


async def test_the_cross_encoder_decides_among_the_few_and_the_rest_stays_behind() -> None:
    async with cascade() as made:
        late = places(await made(passages=8, pairs=0))
        assert made.scores.asked == []
        found = await made(passages=8)
    assert made.scores.asked == [4]
    assert places(found) == [*sorted(late[:4]), *late[4:]]
    assert [item.scorer for item in found.items] == ["cross_encoder"] * 4 + ["maxsim"] * 4
    assert [item.score for item in found.items[:4]] == [score_of(place) for place in places(found)[:4]]
    assert all(item.passage.text[slice(*item.sentence)] for item in found.items)


async def test_what_late_interaction_put_below_the_cut_can_come_first() -> None:
    async with cascade() as made:
        late = places(await made(passages=4, pairs=0))
        assert places(await made(passages=1)) == [min(late)]
        assert min(late) != late[0], "or the cross-encoder would have changed nothing"


async def test_more_passages_than_candidates_are_all_there() -> None:
    settings = RetrievalSettings(rerank_limit=3, passages=6, cross_encoder_limit=2)
    async with cascade(retrieval=settings) as made:
        found = await made()
        assert len(found.items) == 6
        assert {item.scorer for item in found.items} == {"cross_encoder", "maxsim"}
        assert len((await made(candidates=2)).items) == 6
        assert len((await made(candidates=0)).items) == 6


async def test_the_floor_is_held_against_late_interaction_before_anything_is_scored() -> None:
    async with cascade(floor=Floor(2.0, 2.0)) as made:
        assert (await made()).items == ()
    assert made.scores.asked == []


FAULTS = [
    Unavailable("down"),
    Overloaded("busy"),
    Bug("broken"),
    ConfigError("wrong key"),
    InvalidRequest("query too long"),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
async def test_its_failure_costs_the_order_only(fault: SlipstreamError) -> None:
    async with cascade(Scores(fail=fault)) as made:
        call = new_call()
        late = places(await made(passages=3, pairs=0))
        assert places(await made(call, passages=3)) == late
        assert call.degraded == ["cross_encoder"]


async def test_it_is_waited_for_so_long_and_no_longer() -> None:
    async with cascade(Scores(hang=True), timeout_s=0.05) as made:
        call = new_call()
        assert len((await made(call)).items) == 3
        assert call.degraded == ["cross_encoder"]
    async with cascade(Scores(hang=True), timeout_s=60.0) as made:
        call = new_call(0.2)
        assert len((await made(call)).items) == 3
        assert call.deadline.remaining_s() > 0, "half of the rest is left for the model"


async def test_nobody_waits_for_what_keeps_failing() -> None:
    now = [0.0]
    circuit = Circuit(failures=2, pause_s=1.0, clock=lambda: now[0])
    async with cascade(Scores(fail=Unavailable("down")), circuit=circuit) as made:
        for _ in range(5):
            call = new_call()
            assert len((await made(call)).items) == 3
            assert call.degraded == ["cross_encoder"]
        assert made.scores.asked == [4, 4]
        made.scores.fail = None
        now[0] = 1.0
        call = new_call()
        await made(call)
        assert call.degraded == []


async def test_a_query_it_cannot_read_is_no_failure_of_its() -> None:
    circuit = Circuit(failures=1)
    async with cascade(Scores(fail=InvalidRequest("query too long")), circuit=circuit) as made:
        await made()
    assert not circuit.open


async def test_who_leaves_is_no_failure_either() -> None:
    circuit = Circuit(failures=1)
    async with cascade(Scores(hang=True), circuit=circuit) as made:
        leaving = asyncio.create_task(made())
        while not made.scores.asked:  # noqa: ASYNC110 - what it waits for is a list
            await asyncio.sleep(0)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
    assert not circuit.open


async def test_scores_are_remembered_by_query_and_passage() -> None:
    async with cascade(cached=100) as made:
        first = await made()
        call = new_call()
        assert places(await made(call)) == places(first)
        assert made.scores.asked == [4]
        assert [span.detail for span in call.spans if span.name == "cross_encoder"] == [{"cached": 4}]
        await made(pairs=6)
        assert made.scores.asked == [4, 2], "only what is new"


def test_the_cache_forgets_the_least_recently_used_and_tells_queries_and_models_apart() -> None:
    cache = ScoreCache("m", 3)
    cache.keep("q", {"a": 0.1, "b": 0.2, "c": 0.3})
    assert cache.found("q", ["a"]) == {"a": 0.1}
    cache.keep("q", {"d": 0.4})
    assert cache.found("q", ["a", "b", "c", "d"]) == {"a": 0.1, "c": 0.3, "d": 0.4}
    assert cache.found("r", ["a"]) == {}
    assert len(cache) == 3
    off = ScoreCache("m", 0)
    off.keep("q", {"a": 1.0})
    assert len(off) == 0


async def test_dropping_it_is_the_first_rung_of_the_ladder() -> None:
    costs = StageCosts()
    costs.observe("late_interaction", 50, 0.01)
    costs.observe("cross_encoder", 12, 1.2)
    plan = Planner(Ladder(costs), RetrievalSettings(), ("small",), cross_encoder=True)
    asked = question("How many days?")
    call = new_call(30.0)
    assert plan(asked, call).pairs is None
    call = new_call(0.5)
    lowered = plan(asked, call)
    assert (lowered.pairs, lowered.candidates, call.degraded) == (0, 50, ["cross_encoder"])
    without = Planner(Ladder(costs), RetrievalSettings(), ("small",))
    call = new_call(0.5)
    assert without(asked, call).pairs is None
    assert call.degraded == []


async def test_its_cost_is_learnt_from_what_was_scored() -> None:
    costs = StageCosts()
    plan = Planner(Ladder(costs), RetrievalSettings(), ("small",), cross_encoder=True)
    async with cascade(cached=100) as made:
        for _ in range(2):
            call = new_call()
            await made(call)
            plan.learn(call)
    assert costs.estimate("cross_encoder", 4) > 0


async def test_a_flood_of_users_shares_batches_and_a_poisoned_pair_hurts_nobody_else() -> None:
    sizes: list[int] = []
    model = FakeCrossEncoder()

    async def forward(pairs: Sequence[tuple[str, str]]) -> Sequence[float]:
        sizes.append(len(pairs))
        await asyncio.sleep(0)
        if any("poison" in query for query, _ in pairs):
            raise Bug("poisoned")
        return await model.score(pairs)

    batcher = Batcher[tuple[str, str], float](
        "pairs", forward, cost=lambda pair: len(pair[1]), max_cost=4_000, max_items=64, max_waiting=None
    )
    async with batcher, path() as made:
        passages = await made.add(*TEXTS)
        encodes = [CrossEncode("m", batcher.submit_many, 5.0, 0) for _ in range(16)]
        queries = [f"{'poison' if user == 7 else 'rule'} {user} days" for user in range(16)]
        calls = [new_call() for _ in range(16)]
        found = await asyncio.gather(
            *(encode(query, passages, call) for encode, query, call in zip(encodes, queries, calls, strict=True))
        )
    assert found[7] is None
    assert calls[7].degraded == ["cross_encoder"]
    for user, scores in enumerate(found):
        if user != 7:
            assert scores == {
                p.id: s
                for p, s in zip(passages, await model.score([(queries[user], p.text) for p in passages]), strict=True)
            }
    assert max(sizes) > len(TEXTS), "pairs of several users went together"
