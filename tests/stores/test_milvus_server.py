"""The Milvus store keeps the contract on a real server, one too old for sparse vectors: dense search alone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import pytest
from contracts.store_contract import *  # noqa: F403  every promise is a test of this module
from contracts.store_contract import DIMENSIONS, A, B, encoding, indexed, numbered, reference
from stores.milvus_server import MilvusServerProcess

from slipstream.errors import ConfigError, InvalidRequest, Unavailable
from slipstream.settings import MilvusSettings
from slipstream.stores.index import IndexSpec, SearchSpec
from slipstream.stores.milvus import MilvusStore
from slipstream.types import Match, Range, Scope

pytestmark = pytest.mark.heavy


@pytest.fixture  # type: ignore[no-redef]
def sparse() -> bool:  # stands in for the contract's
    return False


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MilvusServerProcess]:
    server = MilvusServerProcess(tmp_path_factory.mktemp("milvus"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def store(server: MilvusServerProcess) -> AsyncIterator[MilvusStore]:
    store = await opened(server, f"c{uuid4().hex}")
    yield store
    await store.drop()
    await store.close()


async def opened(server: MilvusServerProcess, name: str, *, hybrid: bool = False) -> MilvusStore:
    settings = MilvusSettings(uri=server.uri, collection=name, partitions=4)
    store = MilvusStore(settings, dimensions=DIMENSIONS, encoder="test", hybrid=hybrid)
    await store.open()
    return store


@pytest.mark.anyio
async def test_hybrid_search_is_refused_at_the_start_and_by_request(
    server: MilvusServerProcess, store: MilvusStore
) -> None:
    with pytest.raises(ConfigError, match=r"no sparse vectors.*retrieval\.sparse_limit = 0"):
        await opened(server, "never_made", hybrid=True)
    with pytest.raises(InvalidRequest, match=r"Milvus 2\.4 or later.*dense"):
        await store.search_sparse("words", A, 5)


@pytest.mark.anyio
async def test_a_killed_server_keeps_what_it_acknowledged_and_is_used_again(
    server: MilvusServerProcess, store: MilvusStore
) -> None:
    passages = numbered(["durable"] * 200)
    await store.upsert(passages)
    await store.delete_scope(Scope("a", filter=Range("position", lt=50)))
    server.kill()
    began = time.monotonic()
    with pytest.raises(Unavailable, match=str(server.port)):
        await store.search_dense(encoding(1).dense, A, 5)
    assert time.monotonic() - began < 8
    await asyncio.to_thread(server.start)
    async with asyncio.timeout(120):
        while True:  # the server takes its collections up again after it answers
            try:
                count = await store.count(A)
                break
            except Unavailable:
                continue
    assert count == 150
    exact = await reference(passages[50:])
    found = await store.search_dense(encoding(1).dense, A, 10)
    assert [hit.passage_id for hit in found] == [
        hit.passage_id for hit in await exact.search_dense(encoding(1).dense, A, 10)
    ]
    ids = [hit.passage_id for hit in found]
    assert len(await store.fetch_tokens(ids, A)) == len(ids)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("index", "least"),
    [
        (IndexSpec(kind="flat"), 1.0),
        (IndexSpec(kind="ivf_flat", nlist=16), 0.9),
        (IndexSpec(kind="ivf_pq", nlist=16, pq_m=16), 0.6),
        (IndexSpec(kind="hnsw", m=8, ef_construct=64), 0.95),
    ],
)
async def test_every_kind_of_index_is_built_beside_and_takes_over(
    store: MilvusStore, index: IndexSpec, least: float
) -> None:
    """2,000 passages of one tenant, more than the server leaves unindexed, and 20 of another."""
    passages = numbered(["words"] * 2_000)
    await store.upsert([*passages, *numbered(["words"] * 20, tenant="b")])
    await store.optimize()
    await asyncio.gather(store.reindex(index), store.upsert([indexed("meanwhile", position=5_000, seed=5_000)]))
    await store.spend(SearchSpec(ef=32, nprobe=8))
    assert store.index == index
    assert await store.count(A) == 2_001
    exact = await reference([*passages, indexed("meanwhile", position=5_000, seed=5_000)])
    recall = []
    for seed in range(10_000, 10_020):
        query = encoding(seed).dense
        wanted = {hit.passage_id for hit in await exact.search_dense(query, A, 10)}
        recall.append(len(wanted & {hit.passage_id for hit in await store.search_dense(query, A, 10)}) / 10)
        truth = await store.search_dense_with(query, A, 10, SearchSpec(exact=True))
        assert {hit.passage_id for hit in truth} == wanted
        assert len(await store.search_dense(query, B, 20)) == 20  # a small scope is found whole
    assert sum(recall) / len(recall) >= least
    again = MilvusStore(store.settings, dimensions=DIMENSIONS, encoder="test", hybrid=False)
    await again.open()
    assert (again.index, again.search_spec) == (index, SearchSpec(ef=32, nprobe=8))
    await again.close()


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["a/b", "a~1b", "a\nb", "a'b", "a{b}", "über", "a.b"])
async def test_metadata_keys_of_any_kind_can_be_filtered_by(store: MilvusStore, name: str) -> None:
    value = "v\n\"'\\\0"
    await store.upsert([indexed("x", metadata={name: value}), indexed("y", position=1)])
    assert await store.count(Scope("a", filter=Match(name, (value,)))) == 1
