"""The Milvus collections of a store: passages behind an alias, their token vectors beside them.

Token vectors are some fifty times the size of the rest. In a collection of their own they neither split the dense
index into small segments nor have to stay in memory with it.
"""

from __future__ import annotations

from typing import Any

import grpc
from pymilvus import AsyncMilvusClient, DataType, MilvusException

from slipstream.errors import ConfigError, DataError
from slipstream.settings import MilvusSettings
from slipstream.stores.index import IndexSpec
from slipstream.stores.milvus_connection import MilvusConnection, MilvusVersion, is_missing
from slipstream.stores.milvus_filters import TRUTHS
from slipstream.stores.milvus_index import index_of, index_params
from slipstream.stores.milvus_rows import INT_FIELDS, MAX_TERMS, TENANT_BYTES, TEXT_BYTES, TEXT_FIELDS

_OLDEST = (2, 3)
_RECORD_ID_BYTES = 48


class MilvusCollections:
    def __init__(self, connection: MilvusConnection, settings: MilvusSettings, *, dimensions: int) -> None:
        self._connection = connection
        self._partitions = settings.partitions
        self._dimensions = dimensions
        self.passages = settings.collection
        """An alias, so that another index can take over."""
        self.tokens = f"{settings.collection}_tokens"
        self.behind = ""
        """The collection that the alias names."""
        self.sparse = False
        """Whether passages have sparse vectors."""
        self.lite = False

    def check_version(self, version: MilvusVersion, *, hybrid: bool) -> None:
        """Raises ConfigError for a server that is too old."""
        if (version.major, version.minor) < _OLDEST:
            raise ConfigError(
                f"Milvus at {self._connection.where} is {version.text}; Slipstream needs 2.3 for dense search and 2.4 "
                "for hybrid search."
            )
        if hybrid and not version.has_sparse:
            raise ConfigError(
                f"Milvus at {self._connection.where} is {version.text}, which has no sparse vectors (2.4 and later "
                "have), so it cannot search by BM25. Use a newer server, or set retrieval.sparse_limit = 0 to search "
                "by dense vectors alone."
            )

    async def ensure(self, version: MilvusVersion, index: IndexSpec, *, hybrid: bool) -> IndexSpec:
        """Makes what is missing; gives the index that is built.

        Raises DataError when the collection was made for other settings.
        """
        self.lite = version.is_lite
        described = await self._described(self.passages)
        if described is None:
            self.behind = f"{self.passages}_1"
            self.sparse = version.has_sparse
            await self.make_passages(self.behind, index)
            await self._connection.write(
                lambda client, s: _unless_there(client.create_alias(self.behind, self.passages, timeout=s))
            )
            described = await self._described(self.passages) or {}
        self.behind = described["collection_name"]
        self.sparse = any(field["name"] == "sparse" for field in described["fields"])
        self._check(described, hybrid=hybrid)
        if await self._described(self.tokens) is None:
            await self._make(self.tokens, self._token_schema, {"place": {"index_type": "FLAT", "metric_type": "L2"}})
        for name in (self.behind, self.tokens):
            await self.load(name)
        return index_of(await self.described_index(self.behind))

    async def make_passages(self, name: str, index: IndexSpec) -> None:
        indexes = {"dense": index_params(index)}
        if self.sparse:
            indexes["sparse"] = {"index_type": "SPARSE_INVERTED_INDEX", "metric_type": "IP", "params": {}}
            if not self.lite:
                indexes["terms"] = {"index_type": "INVERTED"}
        await self._make(name, self._passage_schema, indexes)

    async def described_index(self, name: str) -> dict[str, Any]:
        described = await self._connection.read(lambda client, s: client.describe_index(name, "dense", timeout=s))
        if described is None:
            raise DataError(f"Collection {name} has no dense index. Drop it and ingest again.")
        return dict(described)

    async def load(self, name: str) -> None:
        await self._connection.build(lambda client, s: client.load_collection(name, timeout=s))

    async def flush(self, name: str) -> None:
        await self._connection.build(lambda client, s: client.flush(name, timeout=s))

    async def drop_all(self) -> None:
        """Passages, token vectors and the alias: nothing is left."""
        await self._connection.exists(lambda client, s: client.drop_alias(self.passages, timeout=s))
        await self.drop(self.behind)
        await self.drop(self.tokens)

    async def drop(self, name: str) -> None:
        await self._connection.write(lambda client, s: client.drop_collection(name, timeout=s))

    async def _described(self, name: str) -> dict[str, Any] | None:
        return await self._connection.exists(lambda client, s: client.describe_collection(name, timeout=s))

    async def _make(self, name: str, schema: Any, indexes: dict[str, dict[str, Any]]) -> None:
        await self._connection.write(
            lambda client, s: client.create_collection(
                name, schema=schema(), num_partitions=self._partitions, consistency_level="Session", timeout=s
            )
        )
        for field, params in indexes.items():
            wanted = AsyncMilvusClient.prepare_index_params()
            wanted.add_index(field, index_name=field, **params)
            await self._index(name, wanted)

    async def _index(self, name: str, wanted: Any) -> None:
        await self._connection.write(lambda client, s: _at_once(client.create_index(name, wanted, timeout=s)))

    def _passage_schema(self) -> Any:
        schema = AsyncMilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("id", DataType.VARCHAR, is_primary=True, max_length=36)
        schema.add_field("tenant", DataType.VARCHAR, max_length=TENANT_BYTES, is_partition_key=True)
        for name, size in TEXT_FIELDS.items():
            schema.add_field(name, DataType.VARCHAR, max_length=size)
        for name in INT_FIELDS:
            schema.add_field(name, DataType.INT64)
        schema.add_field("time", DataType.DOUBLE)
        schema.add_field("metadata", DataType.JSON)
        schema.add_field(TRUTHS, DataType.JSON)
        schema.add_field("dense", DataType.FLOAT_VECTOR, dim=self._dimensions)
        if self.sparse:
            schema.add_field("sparse", DataType.SPARSE_FLOAT_VECTOR)
            schema.add_field("terms", DataType.ARRAY, element_type=DataType.INT64, max_capacity=MAX_TERMS)
        return schema

    def _token_schema(self) -> Any:
        schema = AsyncMilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("id", DataType.VARCHAR, is_primary=True, max_length=_RECORD_ID_BYTES)
        schema.add_field("tenant", DataType.VARCHAR, max_length=TENANT_BYTES, is_partition_key=True)
        schema.add_field("record", DataType.VARCHAR, max_length=TEXT_BYTES)
        schema.add_field("place", DataType.FLOAT_VECTOR, dim=2)  # a collection must have a vector
        return schema

    def _check(self, described: dict[str, Any], *, hybrid: bool) -> None:
        where = f"Milvus's collection {self.passages!r}"
        dimensions = next(f["params"]["dim"] for f in described["fields"] if f["name"] == "dense")
        if int(dimensions) != self._dimensions:
            raise DataError(
                f"{where} holds {dimensions} dimensions, and the encoder gives {self._dimensions}. Choose another "
                "milvus.collection and ingest again."
            )
        if hybrid and not self.sparse:
            raise ConfigError(
                f"{where} was made on a server without sparse vectors, so it cannot be searched by BM25. Copy it into "
                "a new collection, or set retrieval.sparse_limit = 0 to search by dense vectors alone."
            )


async def _at_once(making: Any) -> None:
    """Milvus Lite has built an index when it answers, and lacks the clock that the client then asks for."""
    try:
        await making
    except grpc.RpcError as error:
        if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
            raise


async def _unless_there(making: Any) -> None:
    """Two servers that start together both make the alias."""
    try:
        await making
    except MilvusException as error:
        if "exist" not in error.message or is_missing(error):
            raise
