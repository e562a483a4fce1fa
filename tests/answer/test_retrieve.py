"""Legs alone or together, as asked; one that fails leaves the other to serve."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from answer.path import TENANT, new_call, passage

from slipstream.answer.fuse import reciprocal_rank_fusion
from slipstream.answer.retrieve import Retriever, search_plan
from slipstream.errors import Unavailable
from slipstream.models.fake_encoder import FakeEncoder
from slipstream.settings import RetrievalSettings
from slipstream.stores.memory import MemoryStore
from slipstream.types import Encoding, Hit, IndexedPassage, Query, Question, Scope, SearchOptions, Vector

TEXTS = ("The pump is blue.", "The valve is red.", "A pump and a valve.", "Nothing of the kind.")
QUERY = Query("pump", "en")


class Store(MemoryStore):
    """Counts its searches; a leg may be down, or wait for the other to begin."""

    def __init__(self) -> None:
        super().__init__(dimensions=FakeEncoder().dimensions)
        self.asked: list[tuple[str, int]] = []
        self.down: set[str] = set()
        self.begun = {"dense": asyncio.Event(), "sparse": asyncio.Event()}
        self.wait = False

    async def search_dense(self, vector: Vector, scope: Scope, limit: int) -> list[Hit]:
        await self._begin("dense", limit)
        return await super().search_dense(vector, scope, limit)

    async def search_sparse(self, text: str, scope: Scope, limit: int) -> list[Hit]:
        await self._begin("sparse", limit)
        return await super().search_sparse(text, scope, limit)

    async def _begin(self, kind: str, limit: int) -> None:
        self.asked.append((kind, limit))
        self.begun[kind].set()
        if self.wait:
            await self.begun["dense" if kind == "sparse" else "sparse"].wait()
        if kind in self.down:
            raise Unavailable(f"{kind} is down")


async def encode(text: str) -> Encoding:
    return (await FakeEncoder().encode([text], "query"))[0]


async def filled() -> Store:
    store = Store()
    encodings = await FakeEncoder().encode(TEXTS, "passage")
    await store.upsert([IndexedPassage(passage(t), e) for t, e in zip(TEXTS, encodings, strict=True)])
    return store


def asks(passages: int | None = None, **options: Any) -> Question:
    return Question("pump", Scope(TENANT), passages=passages, search=SearchOptions(**options))


@pytest.mark.anyio
async def test_both_legs_are_under_way_at_the_same_time() -> None:
    store = await filled()
    store.wait = True
    retriever = Retriever(store, encode, RetrievalSettings())
    async with asyncio.timeout(5):
        assert (await retriever(QUERY, asks(), new_call())).items


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({}, {("dense", 50), ("sparse", 50)}),
        ({"mode": "dense"}, {("dense", 50)}),
        ({"mode": "sparse"}, {("sparse", 50)}),
        ({"dense_limit": 7, "sparse_limit": 9}, {("dense", 7), ("sparse", 9)}),
        ({"dense_weight": 0.0}, {("sparse", 50)}),
        ({"sparse_weight": 0.0}, {("dense", 50)}),
        ({"passages": 80}, {("dense", 80), ("sparse", 80)}),
    ],
)
async def test_only_what_is_asked_for_is_searched(options: dict[str, Any], asked: set[tuple[str, int]]) -> None:
    store = await filled()
    found = await Retriever(store, encode, RetrievalSettings())(QUERY, asks(**options), new_call())
    assert set(store.asked) == asked
    assert len(store.asked) == len(asked)
    assert found.items


@pytest.mark.anyio
async def test_weights_and_k_of_the_request_are_those_of_the_fusion() -> None:
    store = await filled()
    options: dict[str, Any] = {"dense_weight": 0.3, "sparse_weight": 2.0, "rrf_k": 5}
    found = await Retriever(store, encode, RetrievalSettings())(QUERY, asks(**options), new_call())
    dense, sparse = (leg.hits for leg in found.legs)
    assert found.items == reciprocal_rank_fusion(dense, sparse, k=5, dense_weight=0.3, sparse_weight=2.0)
    assert found.items != reciprocal_rank_fusion(dense, sparse)


def test_settings_fill_in_what_the_request_leaves_open() -> None:
    settings = RetrievalSettings(dense_limit=0, sparse_weight=0.5, rrf_k=7)
    plan = search_plan(SearchOptions(), settings)
    assert (plan.dense_limit, plan.sparse_weight, plan.rrf_k) == (0, 0.5, 7)
    assert search_plan(SearchOptions(mode="dense"), settings).dense_limit > 0  # insisted on


@pytest.mark.anyio
@pytest.mark.parametrize(("down", "degraded"), [("dense", "dense_search"), ("sparse", "sparse_search")])
async def test_one_leg_down_the_other_serves_and_the_call_says_so(down: str, degraded: str) -> None:
    store = await filled()
    store.down = {down}
    call = new_call()
    assert (await Retriever(store, encode, RetrievalSettings())(QUERY, asks(), call)).items
    assert call.degraded == [degraded]


@pytest.mark.anyio
@pytest.mark.parametrize("options", [{}, {"mode": "dense"}, {"mode": "sparse"}])
async def test_with_every_leg_down_it_fails(options: dict[str, Any]) -> None:
    store = await filled()
    store.down = {"dense", "sparse"}
    with pytest.raises(Unavailable):
        await Retriever(store, encode, RetrievalSettings())(QUERY, asks(**options), new_call())


@pytest.mark.anyio
async def test_a_failing_encoder_leaves_no_search_behind() -> None:
    store = await filled()
    store.wait = True  # the sparse leg would wait for ever

    async def fail(text: str) -> Encoding:
        await store.begun["sparse"].wait()
        raise Unavailable("The encoder is down.")

    with pytest.raises(Unavailable, match="encoder"):
        await Retriever(store, fail, RetrievalSettings())(QUERY, asks(), new_call())
    others: Sequence[asyncio.Task[Any]] = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
    assert not [task for task in others if "_leg" in repr(task.get_coro())]


@pytest.mark.anyio
async def test_variants_of_which_one_leg_is_down_keep_the_others() -> None:
    store = await filled()
    store.down = {"dense"}
    retriever = Retriever(store, encode, RetrievalSettings())
    legs = await retriever.variants(["pump", "valve"], [await encode("pump"), await encode("valve")], asks())
    assert [(leg.kind, leg.query, bool(leg.hits)) for leg in legs] == [
        ("dense", "pump", False),
        ("sparse", "pump", True),
        ("dense", "valve", False),
        ("sparse", "valve", True),
    ]
