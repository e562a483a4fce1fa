"""The embedded store's index: what is chosen is built, kept and finds what exact search finds, whatever the filter."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from contracts.store_contract import DIMENSIONS, A, encoding, indexed, numbered, texts_found, wordy

from slipstream.errors import InvalidRequest
from slipstream.settings import IndexSettings
from slipstream.stores import edge_plan
from slipstream.stores.bm25 import SparseTerms
from slipstream.stores.edge_plan import GRAPH_ABOVE, SCAN_BELOW
from slipstream.stores.edge_protocol import EdgePoint, TokenPlace
from slipstream.stores.edge_shard import EdgeShard
from slipstream.stores.index import IndexSpec, Quantization, SearchSpec, TunableStore
from slipstream.stores.qdrant_edge import QdrantEdgeStore
from slipstream.types import And, Filter, Match, Range, Scope

pytestmark = pytest.mark.anyio

_PARTS = 10_000


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[QdrantEdgeStore]:
    store = QdrantEdgeStore(tmp_path, dimensions=DIMENSIONS, encoder="test", rebuild_after=10)
    await store.open()
    yield store
    await store.close()


def reopened(tmp_path: Path, index: IndexSettings | None = None) -> QdrantEdgeStore:
    return QdrantEdgeStore(tmp_path, dimensions=DIMENSIONS, encoder="test", rebuild_after=10, index=index)


def test_the_store_is_tunable(tmp_path: Path) -> None:
    assert isinstance(reopened(tmp_path), TunableStore)


async def test_the_chosen_index_and_search_outlive_a_restart(store: QdrantEdgeStore, tmp_path: Path) -> None:
    await store.upsert(wordy(50))
    chosen = IndexSpec(m=8, ef_construct=32, quantization="scalar")
    await store.reindex(chosen)
    await store.spend(SearchSpec(ef=17))
    assert (store.index, store.search_spec) == (chosen, SearchSpec(ef=17))
    await store.close()
    again = reopened(tmp_path)
    await again.open()
    assert (again.index, again.search_spec) == (chosen, SearchSpec(ef=17))
    assert not again.needs_optimize()
    assert await again.count(A) == 50
    await again.close()


async def test_settings_win_over_what_is_kept_and_are_built_by_the_next_optimize(
    store: QdrantEdgeStore, tmp_path: Path
) -> None:
    await store.upsert(wordy(50))
    await store.spend(SearchSpec(ef=17))
    await store.close()
    again = reopened(tmp_path, IndexSettings(m=24, ef=99))
    await again.open()
    assert again.search_spec == SearchSpec(ef=99)
    assert again.index == IndexSpec()
    assert (await again.info()).stale
    await again.optimize()
    assert again.index == IndexSpec(m=24)
    assert not (await again.info()).stale
    await again.close()


async def test_a_store_of_before_opens_with_the_defaults(store: QdrantEdgeStore, tmp_path: Path) -> None:
    await store.upsert(numbered(["kept words"]))
    await store.close()
    manifest = tmp_path / "store.json"
    stored = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({k: v for k, v in stored.items() if k not in {"index", "search"}}))
    (tmp_path / "terms.npz").unlink()
    again = reopened(tmp_path)
    await again.open()
    assert (again.index, again.search_spec) == (IndexSpec(), SearchSpec())
    assert await texts_found(again, "kept") == ["kept words"]
    await again.close()


@pytest.mark.parametrize("kind", ["ivf_flat", "ivf_pq"])
async def test_an_index_the_store_does_not_have_is_refused(store: QdrantEdgeStore, kind: str) -> None:
    with pytest.raises(InvalidRequest, match="has no"):
        await store.reindex(IndexSpec(kind=kind))  # type: ignore[arg-type]
    assert store.index == IndexSpec()


async def test_searches_and_writes_go_on_while_an_index_is_built(store: QdrantEdgeStore) -> None:
    await store.upsert(wordy(200))
    building = asyncio.create_task(store.reindex(IndexSpec(m=8)))
    written = 0
    while not building.done():
        await store.upsert([indexed(f"growing {written}", position=1_000 + written)])
        written += 1
        assert len(await store.search_sparse("growing", A, 10_000)) == written
        assert len(await store.search_dense(encoding(1).dense, A, 10_000)) == 200 + written
    await building
    assert store.index == IndexSpec(m=8)
    assert len(await store.search_sparse("growing", A, 10_000)) == written
    assert await store.count(A) == 200 + written


@pytest.mark.parametrize("saved", [True, False])
async def test_bm25_is_the_same_after_a_restart_whether_counts_were_saved(
    store: QdrantEdgeStore, tmp_path: Path, saved: bool
) -> None:
    passages = wordy(120)
    await store.upsert(passages)
    await store.upsert(wordy(30, tenant="b"))
    await store.delete_document("b", "main", "doc")
    await store.upsert([replace(passages[0], passage=replace(passages[0].passage, text="cache cache pool"))])
    before = await store.search_sparse("cache pool 重试", A, 200)
    await store.close()
    assert (tmp_path / "terms.npz").exists()
    if not saved:
        (tmp_path / "terms.npz").write_bytes(b"torn")
    again = reopened(tmp_path)
    await again.open()
    assert await again.search_sparse("cache pool 重试", A, 200) == before
    await again.upsert(numbered(["one more"], first=500))
    assert not (tmp_path / "terms.npz").exists(), "counts that a kill would leave behind must not be believed"
    await again.close()


async def test_a_caller_who_leaves_a_write_does_not_leave_counts_behind(store: QdrantEdgeStore, tmp_path: Path) -> None:
    for position in range(12):
        writing = asyncio.create_task(store.upsert([indexed("cache pool", position=position)]))
        for _ in range(position):
            await asyncio.sleep(0)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
    stored = await store.count(A)
    before = await store.search_sparse("cache", A, 100)
    assert len(before) == stored
    await store.close()
    (tmp_path / "terms.npz").unlink(missing_ok=True)
    again = reopened(tmp_path)
    await again.open()
    assert await again.search_sparse("cache", A, 100) == before
    await again.close()


_WIDE = 128
"""Dimensions at which 21,000 passages are enough for a graph."""


def stored(number: int, share: float, dimensions: int = _WIDE) -> EdgePoint:
    passage = indexed(
        "w",
        tenant="other" if number % 5 == 0 else "a",
        position=number,
        time=share,
        collection=f"c{number % 4}",
        metadata={"part": share * _PARTS, "kind": "odd" if number % 2 else "even"},
    ).passage
    return EdgePoint(
        passage, encoding(number, 0, dimensions).dense, SparseTerms([1], [1.0]), TokenPlace(passage.id, 1, 0, 0)
    )


@pytest.mark.parametrize("total", [21_000, pytest.param(100_000, marks=pytest.mark.heavy)])
def test_filtered_recall_whatever_the_selectivity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, total: int) -> None:
    """By scan, along a tenant's own edges and spreading; along the graph alone a tenth to a half would be found."""
    if total < 50_000:
        monkeypatch.setattr(edge_plan, "SCAN_BELOW", GRAPH_ABOVE)
    shard = EdgeShard.create(tmp_path / "shard", _WIDE, IndexSpec())
    shares = np.random.default_rng(5).permutation(total) / total
    for start in range(0, total, 1_000):
        shard.upsert([stored(n, float(shares[n])) for n in range(start, start + 1_000)])
    shard.optimize()
    assert shard.counts().indexed == total
    clauses: list[Filter | None] = [
        None,
        *(Range("time", lt=share) for share in (0.0001, 0.001, 0.01, 0.05, 0.1, 0.2, 0.35, 0.5)),
        Range("part", lt=0.3 * _PARTS),
        Match("kind", ("odd",)),
        And((Match("kind", ("even",)), Range("time", gte=0.4))),
    ]
    scopes = [*(Scope("a", filter=clause) for clause in clauses), Scope("a", ("c1",)), Scope("a", ("c1", "c2"))]
    for scope in [*scopes, Scope("other")]:
        assert shard_recall(shard, scope) >= 0.97, scope
    shard.close()


@pytest.mark.parametrize("kind", ["scalar", "turbo", "binary", "product"])
def test_a_compressed_copy_of_any_kind_is_scored_again(tmp_path: Path, kind: Quantization) -> None:
    wider, count = 512, 5_500
    shard = EdgeShard.create(tmp_path / "shard", wider, IndexSpec())
    for start in range(0, count, 500):
        shard.upsert([stored(n, 0.5, wider) for n in range(start, start + 500)])
    shard.flush()
    shard.close()
    packed = EdgeShard.load(tmp_path / "shard", wider, IndexSpec(quantization=kind), change=True)
    packed.optimize()
    assert packed.counts().indexed == count
    scope = Scope("a")
    rough, fine = (
        shard_recall(packed, scope, search, wider)
        for search in (SearchSpec(rescore=False), SearchSpec(oversampling=40, ef=512))
    )
    assert fine >= 0.9
    assert rough < fine or kind == "scalar"
    packed.close()


def shard_recall(shard: EdgeShard, scope: Scope, search: SearchSpec | None = None, dimensions: int = _WIDE) -> float:
    recalls = []
    for seed in range(20):
        query = encoding(5_000_000 + seed, 0, dimensions).dense
        truth = {hit.passage_id for hit in shard.dense(query, scope, 10, SearchSpec(exact=True))}
        found = {hit.passage_id for hit in shard.dense(query, scope, 10, search or SearchSpec())}
        recalls.append(len(truth & found) / max(1, len(truth)))
    return float(np.mean(recalls))


def test_the_way_follows_what_a_filter_leaves() -> None:
    left = {"few": GRAPH_ABOVE, "some": SCAN_BELOW, "many": SCAN_BELOW + 1, "nearly all": 95_000}
    ways = {}
    for name, inside in left.items():
        plans = edge_plan.Plans(lambda _, inside=inside: inside, lambda: 100_000)  # type: ignore[misc]
        ways[name] = (plans.of(Scope("a")).way, plans.of(Scope("a", filter=Range("time", lt=1))).way)
    assert ways == {
        "few": ("scan", "scan"),
        "some": ("graph", "scan"),
        "many": ("graph", "spread"),
        "nearly all": ("graph", "graph"),
    }


@pytest.mark.parametrize(
    ("tenant", "inside", "way"),
    [
        (100_000, 20_000, "spread"),  # one collection of many
        (20_000, 19_000, "graph"),  # a tenant with next to nothing else
    ],
)
def test_a_collection_hangs_together_where_it_is_nearly_all_of_the_tenant(tenant: int, inside: int, way: str) -> None:
    counts = iter([inside, tenant])
    plans = edge_plan.Plans(lambda _: next(counts), lambda: 1_000_000)
    assert plans.of(Scope("a", ("c",))).way == way


def test_a_way_is_kept_until_enough_has_changed() -> None:
    counted: list[object] = []

    def count(inside: object) -> int:
        counted.append(inside)
        return 1

    plans = edge_plan.Plans(count, lambda: 1_000)
    for _ in range(3):
        plans.of(A)
    assert len(counted) == 1
    plans.changed(20)
    plans.of(A)
    assert len(counted) == 1
    plans.changed(1)
    plans.of(A)
    assert len(counted) == 2
    plans.forget()
    plans.of(A)
    assert len(counted) == 3


async def test_metadata_that_filters_name_is_indexed(store: QdrantEdgeStore) -> None:
    """Without an index a filter on metadata reads every passage's payload: a hundred times slower at this size."""
    many = {f"key {n}": n for n in range(80)}
    await store.upsert([indexed("x", position=n, metadata={"部门": "财务", "flag": True, **many}) for n in range(10)])
    for clause, count in (
        (Match("部门", ("财务",)), 10),
        (Match("flag", (True,)), 10),
        (Match("flag", (1,)), 0),
        (Match("key 3", (3,)), 10),
        (Match("key 79", (79,)), 10),
        (Range("metadata.key 5", gte=6), 0),
    ):
        assert await store.count(Scope("a", filter=clause)) == count, clause


def test_scopes_that_only_look_alike_have_plans_of_their_own() -> None:
    """To a dictionary True, 1 and 1.0 are one key."""
    plans = edge_plan.Plans(lambda _: 1, lambda: 10)
    scopes = [Scope("a", filter=Match("draft", (value,))) for value in (True, 1)]
    assert scopes[0] == scopes[1]
    assert str(plans.of(scopes[0]).inside) != str(plans.of(scopes[1]).inside)
