from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from contracts.store_contract import DIMENSIONS, indexed, numbered
from rich.console import Console
from tune.tunable_fake import LossyStore

from slipstream.errors import DataError
from slipstream.models.fake_encoder import FakeEncoder
from slipstream.stores.index import IndexSpec, SearchSpec, TunableStore
from slipstream.stores.qdrant_edge import QdrantEdgeStore
from slipstream.tune.choose import choose
from slipstream.tune.measure import Measured, Setting, Times, sweep
from slipstream.tune.report import curve_html, curve_json, show_curve
from slipstream.tune.run import Aim, tune
from slipstream.tune.sample import halved, perturbed, spoken, stored_passages


def quiet(_: str) -> None: ...


async def filled(store: TunableStore, count: int = 200) -> TunableStore:
    await store.open()
    await store.upsert([indexed(f"First of {n}. Second of {n}.", position=n) for n in range(count)])
    return store


def measured(recall: float, p50_ms: float, *, error: float = 0.001, p99_ms: float = 9.0, ef: int = 64) -> Measured:
    times = Times(p50_ms, p99_ms)
    return Measured(Setting(IndexSpec(), SearchSpec(ef=ef)), recall, error, recall, times, times)


# --- samples -------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_sampled_passages_are_distinct_and_from_everywhere() -> None:
    store = await filled(LossyStore(dimensions=DIMENSIONS, finds_all_at=1), 1_000)
    await store.upsert(numbered(["another tenant's"] * 1_000, tenant="b"))
    found = await stored_passages(store, 200, 3)
    assert len({i.passage.id for i in found}) == 200
    assert 60 < sum(i.passage.tenant == "b" for i in found) < 140
    assert [i.passage.id for i in await stored_passages(store, 200, 3)] == [i.passage.id for i in found]


@pytest.mark.anyio
async def test_a_small_store_gives_what_it_has() -> None:
    store = await filled(LossyStore(dimensions=DIMENSIONS, finds_all_at=1), 5)
    found = await stored_passages(store, 200, 0)
    assert 2 <= len(found) <= 5
    with pytest.raises(DataError, match="too few"):
        halved(perturbed(found[:1], 0), 0)


@pytest.mark.anyio
async def test_probes_are_unit_vectors_near_their_passage_in_its_tenant() -> None:
    store = await filled(LossyStore(dimensions=DIMENSIONS, finds_all_at=1))
    passages = await stored_passages(store, 20, 0)
    for indexed_, probe in zip(passages, perturbed(passages, 0), strict=True):
        assert np.linalg.norm(probe.vector) == pytest.approx(1, abs=1e-5)
        assert 0.85 < float(probe.vector @ indexed_.encoding.dense) < 0.99
        assert probe.scope.tenant == indexed_.passage.tenant
    encoder = FakeEncoder()
    said = await spoken(passages, encoder, 0)
    sentences = {f"{which} of {i.passage.position}." for i in passages for which in ("First", "Second")}
    vectors = {e.dense.tobytes() for e in await encoder.encode(sorted(sentences), "query")}
    assert all(probe.vector.tobytes() in vectors for probe in said)


@pytest.mark.anyio
async def test_halves_share_nothing_and_lose_nothing() -> None:
    store = await filled(LossyStore(dimensions=DIMENSIONS, finds_all_at=1))
    probes = perturbed(await stored_passages(store, 41, 0), 0)
    halves = halved(probes, 1)
    both = [*halves.tuning, *halves.held]
    assert (len(halves.tuning), len(halves.held)) == (20, 21)
    assert sorted(id(p) for p in both) == sorted(id(p) for p in probes)


# --- choice --------------------------------------------------------------------------------------


def test_the_cheapest_that_surely_reaches_the_target_is_chosen() -> None:
    narrow, sure, dear = measured(0.955, 1.0, error=0.01), measured(0.97, 2.0, error=0.01), measured(0.999, 3.0)
    assert choose([dear, narrow, sure], 0.95, None).best is sure
    choice = choose([narrow, measured(0.9, 0.5)], 0.95, None)
    assert (choice.best, choice.reaches) == (narrow, True)
    assert "narrowly" in choice.why


def test_what_is_too_slow_is_not_chosen() -> None:
    slow, quick = measured(0.99, 2.0, p99_ms=30.0), measured(0.9, 1.0, p99_ms=5.0)
    choice = choose([slow, quick], 0.95, 10.0)
    assert (choice.best, choice.reaches) == (quick, False)
    assert "finds most" in choice.why
    choice = choose([slow, measured(0.99, 1.0, p99_ms=12.0)], 0.95, 10.0)
    assert not choice.reaches
    assert choice.best.crowded.p99_ms == 12.0


@pytest.mark.parametrize(
    ("index", "count"),
    [(IndexSpec(kind="flat"), 1), (IndexSpec(kind="flat", quantization="scalar"), 3), (IndexSpec(kind="ivf_flat"), 9)],
)
def test_what_is_swept(index: IndexSpec, count: int) -> None:
    assert len(sweep(index, 10)) == count
    assert all(search.ef >= 50 for search in sweep(IndexSpec(), 50))
    assert SearchSpec(ef=50) in sweep(IndexSpec(), 50)
    assert len(sweep(IndexSpec(quantization="turbo"), 50)) == 3 * len(sweep(IndexSpec(), 50))


# --- the whole -----------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_it_finds_the_least_effort_that_reaches_the_target() -> None:
    store = LossyStore(dimensions=DIMENSIONS, finds_all_at=100)
    await filled(store)
    halves = halved(perturbed(await stored_passages(store, 40, 0), 0), 0)
    tuned = await tune(store, halves, Aim(0.95, 10), quiet)
    by_ef = {m.setting.search.ef: m for m in tuned.measured}
    assert by_ef[96].recall == by_ef[96].held_recall == pytest.approx(0.9)
    assert by_ef[128].recall == by_ef[128].held_recall == 1
    assert tuned.choice.best.setting.search.ef >= 128
    assert not tuned.applied
    assert (store.index, store.search_spec, store.built) == (IndexSpec(), SearchSpec(), [])


@pytest.mark.anyio
async def test_every_offer_is_built_once_and_the_choice_is_applied() -> None:
    store = LossyStore(dimensions=DIMENSIONS, finds_all_at=1_000)
    await filled(store)
    halves = halved(perturbed(await stored_passages(store, 40, 0), 0), 0)
    tuned = await tune(store, halves, Aim(0.95, 10, build=True, apply=True), quiet)
    assert store.built == [IndexSpec(m=8), IndexSpec(m=32)]
    assert tuned.applied
    assert store.index == IndexSpec(m=32)  # the only one that finds all with ef=512
    assert store.search_spec == tuned.choice.best.setting.search == SearchSpec(ef=512)


@pytest.mark.anyio
async def test_what_reaches_nothing_is_not_applied_and_the_store_is_as_before() -> None:
    store = LossyStore(dimensions=DIMENSIONS, finds_all_at=10**6)
    await filled(store)
    halves = halved(perturbed(await stored_passages(store, 40, 0), 0), 0)
    tuned = await tune(store, halves, Aim(0.95, 10, build=True, apply=True), quiet)
    assert not tuned.choice.reaches
    assert not tuned.applied
    assert (store.index, store.search_spec) == (IndexSpec(), SearchSpec())


@pytest.mark.anyio
async def test_when_an_index_cannot_be_built_the_store_is_as_before() -> None:
    class Refusing(LossyStore):
        async def reindex(self, index: IndexSpec) -> None:
            if index.m == 32:
                raise DataError("no room")
            await super().reindex(index)

    store = Refusing(dimensions=DIMENSIONS, finds_all_at=1)
    await filled(store)
    halves = halved(perturbed(await stored_passages(store, 10, 0), 0), 0)
    with pytest.raises(DataError, match="no room"):
        await tune(store, halves, Aim(0.95, 10, build=True), quiet)
    assert store.index == IndexSpec()


@pytest.mark.anyio
async def test_over_the_embedded_store(tmp_path: Path) -> None:
    store = QdrantEdgeStore(tmp_path, dimensions=DIMENSIONS)
    await filled(store, 400)
    halves = halved(perturbed(await stored_passages(store, 60, 0), 0), 0)
    tuned = await tune(store, halves, Aim(0.95, 10, apply=True), quiet)
    assert tuned.applied
    assert tuned.choice.best.held_recall >= 0.95
    assert store.search_spec == tuned.choice.best.setting.search
    await store.close()


def test_the_curve_is_shown_in_each_form() -> None:
    points = [
        measured(0.9, 1.0, ef=16),
        measured(0.97, 2.0, ef=64),
        replace(measured(0.99, 3.0, ef=128), held_recall=0.98),
    ]
    choice = choose(points, 0.95, None)
    out = StringIO()
    show_curve(Console(file=out, width=160), points, choice, 0.95)
    assert "ef=64" in out.getvalue()
    assert "Recall on the held half: 0.9700 (target 0.95)" in out.getvalue()
    shown = curve_json(points, choice, 0.95, True)
    assert shown["reaches"]
    assert shown["applied"]
    assert shown["chosen"]["setting"]["search"]["ef"] == 64
    assert len(shown["measured"]) == 3
    page = curve_html(points, choice, 0.95)
    assert page.count("<circle") == 3
    assert "ef=128: recall 0.9900, held half 0.9800" in page
