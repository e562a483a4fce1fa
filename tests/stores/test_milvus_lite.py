"""The Milvus store keeps the contract of every store, on Milvus Lite."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest
from contracts.store_contract import *  # noqa: F403  every promise is a test of this module
from contracts.store_contract import DIMENSIONS, A, B, encoding, indexed, numbered, reference, varied

from slipstream.errors import DataError, InvalidRequest
from slipstream.settings import MilvusSettings
from slipstream.stores.index import IndexSpec, SearchSpec
from slipstream.stores.milvus import MilvusStore
from slipstream.types import IndexedPassage, Match, Not, Range, Scope


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("milvus") / "lite.db"


@pytest.fixture
async def store(database: Path) -> AsyncIterator[MilvusStore]:
    store = await opened(str(database), f"c{uuid4().hex}")
    yield store
    await store.close()


async def opened(uri: str, name: str, *, dimensions: int = DIMENSIONS, encoder: str = "test") -> MilvusStore:
    settings = MilvusSettings(uri=uri, collection=name, partitions=4, timeout_s=60)
    store = MilvusStore(settings, dimensions=dimensions, encoder=encoder)
    await store.open()
    return store


@pytest.mark.anyio
async def test_searches_and_writes_go_on_while_another_index_is_built(store: MilvusStore) -> None:
    passages = numbered(["before"] * 60)
    await store.upsert(passages)
    new = IndexSpec(kind="flat")

    async def write() -> None:
        await store.upsert(numbered(["meanwhile"] * 20, first=100))
        await store.upsert(numbered(["again"] * 10))
        await store.delete_scope(Scope("a", filter=Range("position", gte=50, lt=60)))

    async def read() -> None:
        while store.index != new:
            assert await store.search_dense(encoding(1).dense, A, 5)

    await asyncio.gather(store.reindex(new), write(), read())
    assert await store.count(A) == 70
    exact = await reference([*numbered(["again"] * 10), *passages[10:50], *numbered(["meanwhile"] * 20, first=100)])
    found = await store.search_dense(encoding(1).dense, A, 100)
    assert [hit.passage_id for hit in found] == [
        hit.passage_id for hit in await exact.search_dense(encoding(1).dense, A, 100)
    ]
    assert len(await store.search_sparse("meanwhile again", A, 100)) == 30


@pytest.mark.anyio
async def test_what_was_tuned_is_there_after_a_restart(database: Path, store: MilvusStore) -> None:
    await store.upsert(numbered(["words"] * 5))
    await store.reindex(IndexSpec(kind="flat"))
    await store.spend(SearchSpec(ef=123))
    again = await opened(str(database), store.settings.collection)
    assert again.index == IndexSpec(kind="flat")
    assert again.search_spec == SearchSpec(ef=123)
    assert await again.count(A) == 5
    await again.close()


@pytest.mark.anyio
@pytest.mark.parametrize("index", [IndexSpec(quantization="scalar"), IndexSpec(kind="ivf_pq", pq_m=7)])
async def test_an_index_that_milvus_does_not_offer_is_refused(store: MilvusStore, index: IndexSpec) -> None:
    with pytest.raises(InvalidRequest):
        await store.reindex(index)
    assert store.index == IndexSpec()


@pytest.mark.anyio
async def test_exact_search_equals_the_reference(store: MilvusStore) -> None:
    await store.upsert(varied())
    exact = await reference(varied())
    for scope in (A, Scope("a", filter=Match("type", ("pdf",))), B):
        found = await store.search_dense_with(encoding(1).dense, scope, 7, SearchSpec(exact=True))
        wanted = await exact.search_dense(encoding(1).dense, scope, 7)
        assert [hit.passage_id for hit in found] == [hit.passage_id for hit in wanted]
    await store.delete_scope(Scope("a", filter=Match("type", ("pdf",))))
    scope = Scope("a", filter=Match("type", ("pdf",)))
    assert await store.search_dense_with(encoding(1).dense, scope, 7, SearchSpec(exact=True)) == []


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["a/b", "a~1b", "a\nb", "a'b", "a{b}", "über", "a.b"])
async def test_metadata_keys_of_any_kind_can_be_filtered_by(store: MilvusStore, name: str) -> None:
    await store.upsert([indexed("x", metadata={name: "v\n\"'\\"}), indexed("y", position=1)])
    assert await store.count(Scope("a", filter=Match(name, ("v\n\"'\\",)))) == 1
    assert await store.count(Scope("a", filter=Not(Match(name, ("v\n\"'\\",))))) == 1


@pytest.mark.anyio
async def test_what_does_not_fit_into_a_field_is_refused_whole(store: MilvusStore) -> None:
    for bad in (
        indexed("x" * 65_536),
        indexed("x", metadata={"long": "y" * 70_000}),
        indexed("x", metadata={"large": 2**64}),
        indexed("x", metadata={"half": "\ud800"}),
    ):
        with pytest.raises(DataError):
            await store.upsert([*numbered(["good"] * 40, first=1), bad])
    assert await store.count(A) == 0


@pytest.mark.anyio
async def test_a_collection_made_for_another_encoder_is_refused(database: Path, store: MilvusStore) -> None:
    with pytest.raises(DataError, match="encoder test"):
        await opened(str(database), store.settings.collection, encoder="other")
    with pytest.raises(DataError, match="dimensions"):
        await opened(str(database), store.settings.collection, dimensions=16)


@pytest.mark.anyio
async def test_token_vectors_of_long_passages_take_several_records(database: Path) -> None:
    store = await opened(str(database), f"c{uuid4().hex}", dimensions=1_024)
    long = IndexedPassage(indexed("long").passage, encoding(1, tokens=100, dimensions=1_024))
    await store.upsert([long])
    vectors = (await store.fetch_tokens([long.passage.id], A))[long.passage.id]
    assert np.abs(vectors.tokens - long.encoding.tokens).max() < 0.01
    assert (vectors.offsets == long.encoding.offsets).all()
    (hit,) = await store.score_tokens(long.encoding.tokens[:3], [long.passage.id], A)
    assert hit.score == pytest.approx(3, abs=0.02)
    await store.delete_scope(A)
    assert await store.fetch_tokens([long.passage.id], A) == {}
    await store.close()
