"""Copies between stores: whole, resumable, idempotent, and honest about what differs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from uuid import UUID

import pytest
from contracts.store_contract import DIMENSIONS, A, numbered, reference, wordy

from slipstream.errors import Unavailable
from slipstream.stores.base import Store
from slipstream.stores.memory import MemoryStore
from slipstream.stores.migration import Copied, compare, copy_all
from slipstream.stores.migration_ledger import MigrationLedger
from slipstream.stores.qdrant_edge import QdrantEdgeStore
from slipstream.types import IndexedPassage, Match, Scope


class Failing(MemoryStore):
    """Takes so many batches, then is away."""

    def __init__(self, batches: int) -> None:
        super().__init__(dimensions=DIMENSIONS)
        self.left = batches
        self.written: list[str] = []

    async def upsert(self, passages: Sequence[IndexedPassage]) -> None:
        if not self.left:
            raise Unavailable("away")
        self.left -= 1
        self.written += [p.passage.id for p in passages]
        await super().upsert(passages)


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[MigrationLedger]:
    ledger = a_ledger(tmp_path)
    yield ledger
    await ledger.close()


def a_ledger(directory: Path, target: str = "new") -> MigrationLedger:
    return MigrationLedger(directory / "migrations.sqlite", "old", target)


async def a_source(passages: int = 1_000) -> MemoryStore:
    source = await reference(wordy(passages))
    await source.upsert(wordy(passages // 4, tenant="b"))
    return source


def counts(store: MemoryStore) -> int:
    return len(store._stored)


@pytest.mark.anyio
async def test_everything_is_copied_with_progress(ledger: MigrationLedger) -> None:
    source, target = await a_source(), Failing(99)
    told: list[Copied] = []
    ticks = iter(range(100))
    copied = await copy_all(source, target, ledger, on_progress=told.append, clock=lambda: float(next(ticks)))
    assert (copied.passages, copied.this_run, copied.total) == (1_250, 1_250, 1_250)
    assert copied.tenants == ("a", "b")
    assert [each.passages for each in told] == [0, 256, 512, 768, 1_024, 1_250]
    assert target.written == sorted(target.written, key=lambda i: UUID(i).int)
    comparison = await compare(source, target, copied.tenants, samples=20)
    assert comparison.holds(1.0)
    assert comparison.searches == 20
    assert [(c.tenant, c.source, c.target) for c in comparison.tenants] == [("a", 1_000, 1_000), ("b", 250, 250)]


@pytest.mark.anyio
async def test_an_interrupted_copy_goes_on_where_it_was(tmp_path: Path) -> None:
    source, target, first, second = await a_source(), Failing(2), a_ledger(tmp_path), a_ledger(tmp_path)
    with pytest.raises(Unavailable):
        await copy_all(source, target, first)
    await first.close()
    target.left, target.written = 99, []
    copied = await copy_all(source, target, second)
    await second.close()
    assert (copied.passages, copied.this_run) == (1_250, 1_250 - 512)
    assert copied.tenants == ("a", "b")
    assert len(target.written) == 1_250 - 512
    assert (await compare(source, target, copied.tenants)).holds(1.0)


@pytest.mark.anyio
async def test_a_batch_written_but_not_recorded_is_written_again_without_harm(tmp_path: Path) -> None:
    source, target, ledger = await a_source(), Failing(99), a_ledger(tmp_path)
    first = [p async for batch in source.export(batch=256) for p in batch][:256]
    await target.upsert(first)
    copied = await copy_all(source, target, ledger)
    await ledger.close()
    assert counts(target) == copied.passages == 1_250


@pytest.mark.anyio
async def test_restart_and_other_pairs_begin_at_the_beginning(tmp_path: Path) -> None:
    source = await a_source()
    runs = (("new", False, 1_250), ("new", False, 0), ("other", False, 1_250), ("new", True, 1_250))
    for target_name, restart, expected in runs:
        ledger, target = a_ledger(tmp_path, target_name), Failing(99)
        copied = await copy_all(source, target, ledger, restart=restart)
        await ledger.close()
        assert (copied.this_run, len(target.written)) == (expected, expected), (target_name, restart)
        assert copied.passages == 1_250


@pytest.mark.anyio
async def test_a_missing_or_surplus_passage_is_found_by_the_counts(ledger: MigrationLedger) -> None:
    source, target = await a_source(), Failing(99)
    copied = await copy_all(source, target, ledger)
    await target.delete_scope(Scope("b", filter=Match("position", (3,))))
    comparison = await compare(source, target, copied.tenants)
    assert [(c.tenant, c.source, c.target) for c in comparison.differing] == [("b", 250, 249)]
    assert not comparison.holds(0.0)
    await target.upsert([*wordy(250, tenant="b"), *numbered(["more"], first=5_000)])
    assert [c.tenant for c in (await compare(source, target, copied.tenants)).differing] == ["a"]


@pytest.mark.anyio
async def test_passages_under_wrong_vectors_or_texts_are_found_by_searches(ledger: MigrationLedger) -> None:
    source = await a_source()
    passages = wordy(1_000)
    swapped = [IndexedPassage(p.passage, other.encoding) for p, other in zip(passages, reversed(passages), strict=True)]
    wrong = await reference(swapped)
    await wrong.upsert(wordy(250, tenant="b"))
    comparison = await compare(source, wrong, ("a", "b"), samples=40)
    assert not comparison.differing
    assert comparison.dense_overlap < 0.5
    assert comparison.sparse_overlap == 1.0
    assert not comparison.holds(0.9)


@pytest.mark.anyio
async def test_nothing_is_a_copy_of_nothing(ledger: MigrationLedger) -> None:
    empty, target = MemoryStore(dimensions=DIMENSIONS), Failing(0)
    copied = await copy_all(empty, target, ledger)
    comparison = await compare(empty, target, copied.tenants)
    assert (copied.passages, comparison.searches, comparison.holds(1.0)) == (0, 0, True)


@pytest.mark.anyio
async def test_from_the_embedded_store_and_back(tmp_path: Path) -> None:
    source = await a_source(400)
    stores = [QdrantEdgeStore(tmp_path / name, dimensions=DIMENSIONS, encoder="test") for name in ("one", "two")]
    for store in stores:
        await store.open()
    try:
        pairs: list[tuple[Store, Store]] = [(source, stores[0]), (stores[0], stores[1])]
        for n, (old, new) in enumerate(pairs):
            ledger = a_ledger(tmp_path, str(n))
            copied = await copy_all(old, new, ledger)
            await ledger.close()
            assert copied.passages == 500
        comparison = await compare(source, stores[1], ("a", "b"), samples=20)
        assert comparison.holds(0.99)
        assert await stores[1].count(A) == 400
    finally:
        for store in stores:
            await store.close()
