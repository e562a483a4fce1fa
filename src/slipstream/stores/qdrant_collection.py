"""The collection in a Qdrant server: how it is laid out, made, checked, and how its dense index is described."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from functools import partial
from typing import Any

from grpc.aio import AioRpcError
from qdrant_client import models

from slipstream.errors import ConfigError, DataError
from slipstream.settings import QdrantSettings, Quantization
from slipstream.stores.index import IndexSpec, SearchSpec
from slipstream.stores.payload import FLOAT_FIELDS, INTEGER_FIELDS, KEYWORD_FIELDS
from slipstream.stores.qdrant_connection import QdrantConnection
from slipstream.stores.qdrant_points import DENSE, TERMS, TOKENS

FORMAT = 1
LEAST_VERSION = (1, 19)
"""The first server that counts BM25's N and n within a tenant, over passages that still exist."""
_PLAIN_KB = 10_000
"""Below this size of vectors (6,600 of 384 dimensions) a scan is as fast as a graph, and exact."""

_COMPRESSED: Mapping[Quantization, Any] = {
    "scalar": models.ScalarQuantization(
        scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99, always_ram=True)
    ),
    "product": models.ProductQuantization(
        product=models.ProductQuantizationConfig(compression=models.CompressionRatio.X16, always_ram=True)
    ),
    "binary": models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True)),
    "turbo": models.TurboQuantization(turbo=models.TurboQuantQuantizationConfig(always_ram=True)),
}

KINDS = frozenset({"flat", "hnsw"})
OFFERS = (
    IndexSpec("flat"),
    IndexSpec("hnsw", m=16, ef_construct=128),
    IndexSpec("hnsw", m=16, ef_construct=128, quantization="scalar"),
    IndexSpec("hnsw", m=16, ef_construct=128, quantization="turbo"),
    IndexSpec("hnsw", m=16, ef_construct=128, quantization="product"),
    IndexSpec("hnsw", m=16, ef_construct=128, quantization="binary"),
    IndexSpec("hnsw", m=32, ef_construct=256),
)
_SEARCH = "slipstream_search"
_ANY_FILTER = models.StrictModeConfig(unindexed_filtering_retrieve=True, unindexed_filtering_update=True)
"""Filters may name any metadata; hosted servers are set up to refuse fields without an index."""

INDEXES: Mapping[str, Any] = {
    "tenant": models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True),
    **{
        field: models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, enable_hnsw=False)
        for field in KEYWORD_FIELDS
    },
    **{
        field: models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, enable_hnsw=False)
        for field in INTEGER_FIELDS
    },
    **{field: models.FloatIndexParams(type=models.FloatIndexType.FLOAT, enable_hnsw=False) for field in FLOAT_FIELDS},
}
"""Only tenants get edges of their own in the graph: those of one more field take as long to build as the graph."""


async def check_version(connection: QdrantConnection) -> None:
    """Raises ConfigError for a server whose BM25 would count other tenants and deleted passages."""
    version = (await connection.read(connection.client.info)).version
    numbers = tuple(int(part) for part in version.split("-")[0].split(".")[:2] if part.isdigit())
    if numbers < LEAST_VERSION:
        raise ConfigError(
            f"Qdrant at {connection.where} is version {version}, and Slipstream needs 1.19 or newer: older ones rank "
            "BM25 by all tenants' documents, deleted ones included. Upgrade it."
        )


async def ensure_collection(
    connection: QdrantConnection, settings: QdrantSettings, *, dimensions: int, encoder: str, index: IndexSpec
) -> models.CollectionInfo:
    """The collection, made if there is none. Safe for several servers that start at once.

    Raises DataError when it was made by something else or for other settings.
    """
    client, name = connection.client, settings.collection
    if not await connection.read(lambda: client.collection_exists(name)):
        await connection.write(lambda: _create(connection, settings, dimensions, encoder, index))
    info = await connection.read(lambda: client.get_collection(name))
    _check(info, settings, dimensions, encoder)
    for field, schema in INDEXES.items():
        if field not in info.payload_schema:
            await connection.write(partial(client.create_payload_index, name, field, schema, wait=True))
    return info


def vector_diff(index: IndexSpec) -> dict[str, models.VectorParamsDiff]:
    """What turns the present dense index into this one."""
    compressed = _COMPRESSED.get(index.quantization, models.Disabled.DISABLED)
    return {DENSE: models.VectorParamsDiff(hnsw_config=_graph(index), quantization_config=compressed)}


def index_of(info: models.CollectionInfo) -> IndexSpec:
    dense = _vectors(info)[DENSE]
    graph, whole = dense.hnsw_config, info.config.hnsw_config
    m = whole.m if graph is None or graph.m is None else graph.m
    ef = whole.ef_construct if graph is None or graph.ef_construct is None else graph.ef_construct
    kept = dense.quantization_config
    names = [name for name, config in _COMPRESSED.items() if type(config) is type(kept)]
    quantization: Quantization = names[0] if names else "none"
    if m == 0:
        return IndexSpec("flat", quantization=quantization)
    return IndexSpec("hnsw", m=m, ef_construct=ef, quantization=quantization)


def search_metadata(search: SearchSpec) -> dict[str, Any]:
    """What keeps a search's spending in the collection."""
    return {_SEARCH: asdict(search)}


def kept_search(info: models.CollectionInfo) -> SearchSpec:
    """Fields that a newer version kept are left out."""
    kept = (info.config.metadata or {}).get(_SEARCH, {})
    return SearchSpec(**{field.name: kept[field.name] for field in fields(SearchSpec) if field.name in kept})


def spending(search: SearchSpec, limit: int, index: IndexSpec) -> dict[str, Any]:
    """The fields of grpc.SearchParams; quantisation is named only where there is one."""
    fields: dict[str, Any] = {"exact": search.exact}
    if not search.exact:
        fields["hnsw_ef"] = max(search.ef, limit)
    if index.quantization != "none":
        fields["quantization"] = {"ignore": search.exact, "rescore": search.rescore}
        if search.rescore:
            fields["quantization"]["oversampling"] = search.oversampling
    return fields


async def _create(
    connection: QdrantConnection, settings: QdrantSettings, dimensions: int, encoder: str, index: IndexSpec
) -> None:
    tokens = models.VectorParams(
        size=dimensions,
        distance=models.Distance.COSINE,
        datatype=models.Datatype.FLOAT16,
        multivector_config=models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM),
        hnsw_config=models.HnswConfigDiff(m=0),  # only ever scored for passages that are named
        on_disk=True,
    )
    dense = models.VectorParams(
        size=dimensions,
        distance=models.Distance.COSINE,
        hnsw_config=_graph(index),
        quantization_config=_COMPRESSED.get(index.quantization),
    )
    try:
        await connection.client.create_collection(
            settings.collection,
            vectors_config={DENSE: dense, TOKENS: tokens},
            sparse_vectors_config={TERMS: models.SparseVectorParams(modifier=models.Modifier.IDF)},
            shard_number=settings.shards,
            replication_factor=settings.replicas,
            write_consistency_factor=settings.write_consistency,
            on_disk_payload=True,
            strict_mode_config=_ANY_FILTER,
            metadata={"slipstream_format": FORMAT, "slipstream_encoder": encoder},
            timeout=int(connection.write_timeout_s) or 1,
        )
    except AioRpcError:
        if not await connection.client.collection_exists(settings.collection):
            raise
        # another server was faster, or a first try had succeeded


def _graph(index: IndexSpec) -> models.HnswConfigDiff:
    if index.kind == "flat":
        return models.HnswConfigDiff(m=0)
    return models.HnswConfigDiff(m=index.m, ef_construct=index.ef_construct, full_scan_threshold=_PLAIN_KB)


def _check(info: models.CollectionInfo, settings: QdrantSettings, dimensions: int, encoder: str) -> None:
    stored, vectors = info.config.metadata or {}, _vectors(info)
    if "slipstream_format" not in stored or DENSE not in vectors:
        raise DataError(
            f"The collection {settings.collection!r} was not made by Slipstream. Set qdrant.collection to another name."
        )
    stored_encoder = stored.get("slipstream_encoder") or encoder
    for name, have, want in (
        ("format", stored["slipstream_format"], FORMAT),
        ("dimensions", vectors[DENSE].size, dimensions),
        ("encoder", stored_encoder, encoder or stored_encoder),
    ):
        if have != want:
            raise DataError(
                f"The passages in the collection {settings.collection!r} were stored with {name} {have}, and the "
                f"settings ask for {want}. Go back to that setting, or set qdrant.collection to another name and "
                "ingest again."
            )


def _vectors(info: models.CollectionInfo) -> Mapping[str, models.VectorParams]:
    vectors = info.config.params.vectors
    return vectors if isinstance(vectors, Mapping) else {}
