"""What the Qdrant store asks of a server, which local mode does not act on: asserted as it arrives there."""

from __future__ import annotations

from collections.abc import AsyncIterator

import numpy as np
import pytest
from contracts.store_contract import DIMENSIONS, A, encoding, indexed, numbered, varied
from qdrant_client import grpc
from stores.qdrant_server import QdrantDouble

from slipstream.errors import ConfigError, DataError, InvalidRequest, Unavailable
from slipstream.settings import IndexSettings, QdrantSettings
from slipstream.stores.index import IndexSpec, SearchSpec
from slipstream.stores.qdrant import QdrantStore
from slipstream.stores.qdrant_collection import OFFERS
from slipstream.stores.qdrant_vectors import dense_message, matrix_of, multi_message, vector_of
from slipstream.types import Match, Scope


class Pauses:
    async def __call__(self, seconds: float) -> None: ...


def a_store(
    double: QdrantDouble, *, encoder: str = "test", dimensions: int = DIMENSIONS, index: IndexSettings | None = None
) -> QdrantStore:
    settings = QdrantSettings(url=double.url, shards=2, replicas=3, write_consistency=2)
    return QdrantStore(settings, dimensions=dimensions, encoder=encoder, index=index, sleep=Pauses())


@pytest.fixture
async def double() -> AsyncIterator[QdrantDouble]:
    double = QdrantDouble()
    await double.start()
    yield double
    await double.close()


@pytest.fixture
async def store(double: QdrantDouble) -> AsyncIterator[QdrantStore]:
    store = a_store(double)
    await store.open()
    yield store
    await store.close()


# --- the collection ------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_collection_is_laid_out_for_three_kinds_of_search(double: QdrantDouble, store: QdrantStore) -> None:
    (made,) = double.seen(grpc.CreateCollection)
    vectors = made.vectors_config.params_map.map
    assert vectors["dense"].size == DIMENSIONS
    assert vectors["dense"].distance == grpc.Distance.Cosine
    assert (vectors["dense"].hnsw_config.m, vectors["dense"].hnsw_config.ef_construct) == (16, 128)
    assert not vectors["dense"].HasField("quantization_config")
    assert vectors["tokens"].datatype == grpc.Datatype.Float16
    assert vectors["tokens"].multivector_config.comparator == grpc.MultiVectorComparator.MaxSim
    assert vectors["tokens"].hnsw_config.m == 0
    assert vectors["tokens"].on_disk
    assert made.sparse_vectors_config.map["terms"].modifier == grpc.Modifier.Idf
    assert (made.shard_number, made.replication_factor, made.write_consistency_factor) == (2, 3, 2)
    assert made.on_disk_payload
    assert made.strict_mode_config.unindexed_filtering_retrieve


@pytest.mark.anyio
async def test_payload_is_indexed_with_the_tenant_as_partition(double: QdrantDouble, store: QdrantStore) -> None:
    made = {request.field_name: request for request in double.seen(grpc.CreateFieldIndexCollection)}
    assert made["tenant"].field_index_params.keyword_index_params.is_tenant
    assert all(request.wait for request in made.values())
    keyword, integer = (made[name].field_index_params for name in ("title", "page"))
    assert (keyword.keyword_index_params.enable_hnsw, integer.integer_index_params.enable_hnsw) == (False, False)
    assert keyword.keyword_index_params.HasField("enable_hnsw")
    kinds = {name: grpc.FieldType.Name(request.field_type) for name, request in made.items()}
    assert kinds == {
        **dict.fromkeys(
            ("tenant", "collection", "document_id", "version", "type", "language", "source", "title"),
            "FieldTypeKeyword",
        ),
        **dict.fromkeys(("page", "position"), "FieldTypeInteger"),
        "time": "FieldTypeFloat",
    }


@pytest.mark.anyio
async def test_a_second_server_takes_the_collection_as_it_is_and_mends_missing_indexes(double: QdrantDouble) -> None:
    first, second = a_store(double), a_store(double)
    await first.open()
    del double._indexes["title"]
    double.requests.clear()
    await second.open()
    assert not double.seen(grpc.CreateCollection)
    assert [request.field_name for request in double.seen(grpc.CreateFieldIndexCollection)] == ["title"]
    await first.upsert(numbered(["seen by both"]))
    assert await second.count(A) == 1
    await first.close()
    await second.close()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("encoder", "dimensions", "named"), [("other", DIMENSIONS, "encoder"), ("test", 64, "dimensions")]
)
async def test_a_collection_made_for_other_settings_is_refused(
    double: QdrantDouble, store: QdrantStore, encoder: str, dimensions: int, named: str
) -> None:
    other = a_store(double, encoder=encoder, dimensions=dimensions)
    with pytest.raises(DataError, match=named):
        await other.open()
    assert not other.healthy()


@pytest.mark.anyio
async def test_somebody_elses_collection_is_left_alone(double: QdrantDouble) -> None:
    from qdrant_client import models

    await double.local.create_collection("slipstream", models.VectorParams(size=4, distance=models.Distance.DOT))
    with pytest.raises(DataError, match="not made by Slipstream"):
        await a_store(double).open()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("version", "fits"), [("1.18.2", False), ("1.19.0", True), ("1.20.0-dev", True), ("2.0.0", True)]
)
async def test_servers_that_cannot_count_within_a_tenant_are_refused(
    double: QdrantDouble, version: str, fits: bool
) -> None:
    double.version = version
    store = a_store(double)
    if fits:
        await store.open()
        await store.close()
    else:
        with pytest.raises(ConfigError, match=r"1\.18\.2.*1\.19"):
            await store.open()


# --- requests ------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_bm25_counts_within_the_tenant_whatever_the_filter(double: QdrantDouble, store: QdrantStore) -> None:
    await store.search_sparse("cache 重试", Scope("a", ("main",), Match("type", ("pdf",))), 7)
    (asked,) = double.seen(grpc.QueryPoints)
    (corpus,) = asked.params.idf.corpus.must
    assert (corpus.field.key, corpus.field.match.keyword) == ("tenant", "a")
    assert len(asked.filter.must) == 3
    assert (asked.using, asked.limit, asked.timeout) == ("terms", 7, 5)


@pytest.mark.anyio
async def test_every_search_names_its_tenant_first(double: QdrantDouble, store: QdrantStore) -> None:
    passage = indexed("x").passage.id
    query = encoding(1)
    await store.search_dense(query.dense, A, 5)
    await store.search_sparse("x", A, 5)
    await store.score_tokens(query.tokens, [passage], A)
    await store.fetch([passage], A)
    await store.fetch_tokens([passage], A)
    await store.count(A)
    await store.delete_scope(A)
    filters = [
        *(request.filter for request in double.seen(grpc.QueryPoints)),
        *(request.filter for request in double.seen(grpc.ScrollPoints)),
        *(request.filter for request in double.seen(grpc.CountPoints)),
        *(request.points.filter for request in double.seen(grpc.DeletePoints)),
    ]
    assert len(filters) == 7
    assert {(f.must[0].field.key, f.must[0].field.match.keyword) for f in filters} == {("tenant", "a")}


@pytest.mark.anyio
async def test_searches_spend_what_is_said(double: QdrantDouble, store: QdrantStore) -> None:
    vector = encoding(1).dense
    await store.search_dense(vector, A, 5)
    await store.search_dense(vector, A, 500)
    await store.search_dense_with(vector, A, 5, SearchSpec(exact=True))
    await store.spend(SearchSpec(ef=200))
    await store.search_dense(vector, A, 5)
    asked = [request.params for request in double.seen(grpc.QueryPoints)]
    assert [params.hnsw_ef for params in asked] == [64, 500, 0, 200]
    assert [params.exact for params in asked] == [False, False, True, False]
    assert not any(params.HasField("quantization") for params in asked)
    assert store.search_spec == SearchSpec(ef=200)


@pytest.mark.anyio
async def test_late_interaction_scores_only_the_passages_named(double: QdrantDouble, store: QdrantStore) -> None:
    ids = [p.passage.id for p in numbered(["a", "b", "c"])]
    await store.score_tokens(encoding(1).tokens, [*ids, ids[0]], A)
    (asked,) = double.seen(grpc.QueryPoints)
    assert asked.using == "tokens"
    assert asked.params.exact
    assert [point.uuid for point in asked.filter.must[-1].has_id.has_id] == ids
    assert asked.limit == 3


@pytest.mark.anyio
async def test_writes_wait_and_are_cut_into_bounded_requests(double: QdrantDouble, store: QdrantStore) -> None:
    long = [indexed("x", position=n, seed=n) for n in range(3)]
    long = [type(p)(p.passage, encoding(n, tokens=3_000)) for n, p in enumerate(long)]
    await store.upsert([*long, *numbered(["short"] * 130, first=10)])
    sent = double.seen(grpc.UpsertPoints)
    assert all(request.wait for request in sent)
    assert [len(request.points) for request in sent] == [1, 1, 64, 64, 3]
    await store.delete_document("a", "main", "doc")
    (deleted,) = double.seen(grpc.DeletePoints)
    assert deleted.wait


@pytest.mark.anyio
@pytest.mark.parametrize("status", [grpc.UpdateStatus.WaitTimeout, grpc.UpdateStatus.Acknowledged])
async def test_a_write_that_is_not_applied_is_not_acknowledged(
    double: QdrantDouble, store: QdrantStore, status: grpc.UpdateStatus.ValueType
) -> None:
    double.update_status = status
    with pytest.raises(Unavailable, match="did not confirm"):
        await store.upsert([indexed("x")])
    assert len(double.seen(grpc.UpsertPoints)) == 4


@pytest.mark.anyio
async def test_a_number_that_does_not_fit_is_refused_by_name(store: QdrantStore) -> None:
    with pytest.raises(DataError, match="Passage 0 of doc"):
        await store.upsert([indexed("x", metadata={"huge": 2**70})])


# --- tuning --------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("index", OFFERS, ids=str)
async def test_every_index_offered_is_built_and_read_back(
    double: QdrantDouble, store: QdrantStore, index: IndexSpec
) -> None:
    await store.upsert(varied())
    yellow = grpc.CollectionStatus.Yellow
    double.statuses = [grpc.CollectionStatus.Green, yellow, yellow]
    double.requests.clear()
    await store.reindex(index)
    (changed,) = double.seen(grpc.UpdateCollection)
    diff = changed.vectors_config.params_map.map
    assert list(diff) == ["dense"]
    assert diff["dense"].hnsw_config.m == (0 if index.kind == "flat" else index.m)
    kinds = {"none": "disabled", "turbo": "turboquant"}
    assert diff["dense"].quantization_config.WhichOneof("quantization") == kinds.get(
        index.quantization, index.quantization
    )
    assert store.index == index
    assert len(double.seen(grpc.GetCollectionInfoRequest)) == 6  # one green, two yellow, two green; what is built
    assert len(await store.search_dense(encoding(1).dense, A, 5)) == 5


@pytest.mark.anyio
async def test_compressed_copies_are_rescored_as_said(double: QdrantDouble, store: QdrantStore) -> None:
    await store.reindex(IndexSpec(quantization="binary"))
    vector = encoding(1).dense
    await store.search_dense_with(vector, A, 5, SearchSpec(oversampling=3.0))
    await store.search_dense_with(vector, A, 5, SearchSpec(rescore=False))
    await store.search_dense_with(vector, A, 5, SearchSpec(exact=True))
    asked = [request.params.quantization for request in double.seen(grpc.QueryPoints)]
    spent = [(q.rescore, q.oversampling, q.ignore) for q in asked]
    assert spent == [(True, 3.0, False), (False, 0.0, False), (True, 2.0, True)]


@pytest.mark.anyio
async def test_an_index_that_cannot_be_built_is_put_back(double: QdrantDouble, store: QdrantStore) -> None:
    double.statuses = [grpc.CollectionStatus.Red]
    with pytest.raises(Unavailable, match="could not build"):
        await store.reindex(IndexSpec(m=32))
    changes = [request.vectors_config.params_map.map["dense"] for request in double.seen(grpc.UpdateCollection)]
    assert [change.hnsw_config.m for change in changes] == [32, 16]
    assert store.index == IndexSpec()


@pytest.mark.anyio
async def test_kinds_that_qdrant_lacks_are_refused(double: QdrantDouble, store: QdrantStore) -> None:
    with pytest.raises(InvalidRequest, match="ivf_flat"):
        await store.reindex(IndexSpec("ivf_flat"))
    with pytest.raises(ConfigError, match="ivf_pq"):
        await a_store(double, index=IndexSettings(kind="ivf_pq")).open()
    assert not double.seen(grpc.UpdateCollection)


@pytest.mark.anyio
async def test_what_was_tuned_is_kept_and_settings_win_over_it(double: QdrantDouble, store: QdrantStore) -> None:
    await store.reindex(IndexSpec(m=32, quantization="scalar"))
    await store.spend(SearchSpec(ef=200, oversampling=3.0))
    same, insisting = a_store(double), a_store(double, index=IndexSettings(m=24, ef=99))
    await same.open()
    assert (same.index, same.search_spec) == (
        IndexSpec(m=32, quantization="scalar"),
        SearchSpec(ef=200, oversampling=3.0),
    )
    double.requests.clear()
    await insisting.open()
    wanted = IndexSpec(m=24, quantization="scalar")
    assert (insisting.index, insisting.search_spec) == (wanted, SearchSpec(ef=99, oversampling=3.0))
    (changed,) = double.seen(grpc.UpdateCollection)
    assert changed.vectors_config.params_map.map["dense"].hnsw_config.m == 24
    await same.close()
    await insisting.close()


@pytest.mark.anyio
async def test_a_new_collection_is_made_as_the_settings_insist(double: QdrantDouble) -> None:
    store = a_store(double, index=IndexSettings(kind="flat", quantization="binary", rescore=False))
    await store.open()
    (made,) = double.seen(grpc.CreateCollection)
    dense = made.vectors_config.params_map.map["dense"]
    assert dense.hnsw_config.m == 0
    assert dense.quantization_config.WhichOneof("quantization") == "binary"
    assert (store.index, store.search_spec) == (IndexSpec("flat", quantization="binary"), SearchSpec(rescore=False))
    await store.close()


@pytest.mark.anyio
async def test_a_failed_optimizer_is_reported(double: QdrantDouble, store: QdrantStore) -> None:
    await store.optimize()
    double.statuses = [grpc.CollectionStatus.Red]
    with pytest.raises(Unavailable, match="cannot optimize"):
        await store.optimize()


# --- vectors -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 1), (1, 384), (7, 31), (300, 384), (3, 5_000)])
def test_vectors_are_the_same_messages_the_library_makes(shape: tuple[int, int]) -> None:
    matrix = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    plain = [grpc.DenseVector(data=row.tolist()) for row in matrix]
    assert dense_message(matrix[0]) == plain[0]
    assert multi_message(matrix) == grpc.MultiDenseVector(vectors=plain)
    assert multi_message(np.asfortranarray(matrix)) == grpc.MultiDenseVector(vectors=plain)
    assert (vector_of(grpc.VectorOutput(dense=plain[0])) == matrix[0]).all()
    assert (matrix_of(grpc.VectorOutput(multi_dense=grpc.MultiDenseVector(vectors=plain))) == matrix).all()
    flat = matrix.ravel().tolist()
    assert (matrix_of(grpc.VectorOutput(data=flat, vectors_count=shape[0])) == matrix).all()
