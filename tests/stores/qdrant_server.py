"""A Qdrant server for tests: the wire is real gRPC, what answers is the client library's own local mode.

Local mode searches exactly and ignores index settings, so tests of those look at the requests as they arrived.
"""

from __future__ import annotations

import socket
import warnings
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import grpc.aio
from grpc import StatusCode
from qdrant_client import AsyncQdrantClient, models
from qdrant_client import grpc as wire
from qdrant_client.conversions.conversion import GrpcToRest, RestToGrpc

T = TypeVar("T")


class QdrantDouble:
    """Starts and stops on one port; what it stores outlives a stop, as a disk would."""

    def __init__(self, version: str = "1.19.0", key: str = "") -> None:
        self.version = version
        self.key = key
        self.port = _free_port()
        self.requests: list[Any] = []
        self.fail: list[Callable[[Any], Awaitable[None] | None]] = []
        """Called in turn, one per request, before it is answered; may raise `Refusal`."""
        self.statuses: list[wire.CollectionStatus.ValueType] = []
        """What the collection says of itself, in turn; then green."""
        self.update_status = wire.UpdateStatus.Completed
        self.local = AsyncQdrantClient(":memory:")
        self._config: dict[str, models.VectorParams] = {}
        self._indexes: dict[str, wire.PayloadIndexParams] = {}
        self._server: Any = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._server = grpc.aio.server(interceptors=[_Gate(self)])
        for add, service in (
            (wire.add_PointsServicer_to_server, _Points(self)),
            (wire.add_CollectionsServicer_to_server, _Collections(self)),
            (wire.add_QdrantServicer_to_server, _Root(self)),
        ):
            add(service, self._server)  # type: ignore[no-untyped-call]
        assert self._server.add_insecure_port(f"127.0.0.1:{self.port}") == self.port
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    async def close(self) -> None:
        await self.stop()
        await self.local.close()

    def seen(self, kind: type[T]) -> list[T]:
        return [request for request in self.requests if isinstance(request, kind)]

    async def checked(self, request: Any, context: Any) -> None:
        self.requests.append(request)
        sent = dict(context.invocation_metadata())
        if self.key and sent.get("api-key") != self.key:
            await context.abort(StatusCode.UNAUTHENTICATED, f"Invalid API key {sent.get('api-key')}")
        if self.fail:
            try:
                waiting = self.fail.pop(0)(request)
                if waiting is not None:
                    await waiting
            except Refusal as refusal:
                await context.abort(refusal.code, refusal.said)


class Refusal(Exception):
    def __init__(self, code: StatusCode, said: str = "for the test") -> None:
        self.code, self.said = code, said


def refuse(code: StatusCode, said: str = "for the test") -> Callable[[Any], None]:
    def raise_it(_: Any) -> None:
        raise Refusal(code, said)

    return raise_it


class _Gate(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # grpc.aio is untyped
    """Passes every request by the double's `checked`."""

    def __init__(self, double: QdrantDouble) -> None:
        self._double = double

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        handler = await continuation(details)
        inner = handler.unary_unary

        async def checked(request: Any, context: Any) -> Any:
            await self._double.checked(request, context)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # local mode says what it does without
                return await inner(request, context)

        return handler._replace(unary_unary=checked)


class _Root(wire.QdrantServicer):
    def __init__(self, double: QdrantDouble) -> None:
        self._double = double

    async def HealthCheck(self, request: Any, context: Any) -> Any:  # noqa: N802
        return wire.HealthCheckReply(title="qdrant", version=self._double.version)


class _Points(wire.PointsServicer):
    def __init__(self, double: QdrantDouble) -> None:
        self._double = double
        self._local = double.local

    async def Upsert(self, request: Any, context: Any) -> Any:  # noqa: N802
        points = [GrpcToRest.convert_point_struct(point) for point in request.points]
        await self._local.upsert(request.collection_name, points)
        return self._done()

    async def Delete(self, request: Any, context: Any) -> Any:  # noqa: N802
        await self._local.delete(request.collection_name, GrpcToRest.convert_points_selector(request.points))
        return self._done()

    async def Query(self, request: Any, context: Any) -> Any:  # noqa: N802
        asked = GrpcToRest.convert_query_points(request)
        found = await self._local.query_points(
            request.collection_name,
            query=asked.query,
            using=asked.using,
            query_filter=asked.filter,
            search_params=asked.params,
            limit=request.limit,
            with_payload=asked.with_payload or False,
        )
        return wire.QueryResponse(result=[RestToGrpc.convert_scored_point(point) for point in found.points])

    async def Scroll(self, request: Any, context: Any) -> Any:  # noqa: N802
        records, offset = await self._local.scroll(
            request.collection_name,
            scroll_filter=GrpcToRest.convert_filter(request.filter) if request.HasField("filter") else None,
            limit=request.limit,
            offset=request.offset.uuid if request.HasField("offset") else None,
            with_payload=GrpcToRest.convert_with_payload_selector(request.with_payload),
            with_vectors=GrpcToRest.convert_with_vectors_selector(request.with_vectors)
            if request.HasField("with_vectors")
            else False,
        )
        return wire.ScrollResponse(
            result=[RestToGrpc.convert_record(record) for record in records],
            next_page_offset=None if offset is None else wire.PointId(uuid=str(offset)),
        )

    async def Count(self, request: Any, context: Any) -> Any:  # noqa: N802
        counted = await self._local.count(
            request.collection_name, count_filter=GrpcToRest.convert_filter(request.filter), exact=request.exact
        )
        return wire.CountResponse(result=wire.CountResult(count=counted.count))

    async def CreateFieldIndex(self, request: Any, context: Any) -> Any:  # noqa: N802
        self._double._indexes[request.field_name] = request.field_index_params
        return self._done()

    def _done(self) -> Any:
        return wire.PointsOperationResponse(result=wire.UpdateResult(status=self._double.update_status))


class _Collections(wire.CollectionsServicer):
    def __init__(self, double: QdrantDouble) -> None:
        self._double = double
        self._local = double.local

    async def CollectionExists(self, request: Any, context: Any) -> Any:  # noqa: N802
        exists = await self._local.collection_exists(request.collection_name)
        return wire.CollectionExistsResponse(result=wire.CollectionExists(exists=exists))

    async def Create(self, request: Any, context: Any) -> Any:  # noqa: N802
        if await self._local.collection_exists(request.collection_name):
            await context.abort(StatusCode.ALREADY_EXISTS, "there is one")
        vectors = GrpcToRest.convert_vectors_config(request.vectors_config)
        self._double._config = dict(vectors)
        await self._local.create_collection(
            request.collection_name,
            vectors_config=vectors,
            sparse_vectors_config=GrpcToRest.convert_sparse_vector_config(request.sparse_vectors_config),
            metadata=GrpcToRest.convert_payload(request.metadata),
        )
        return wire.CollectionOperationResponse(result=True)

    async def Update(self, request: Any, context: Any) -> Any:  # noqa: N802
        if request.metadata:
            await self._local.update_collection(
                request.collection_name, metadata=GrpcToRest.convert_payload(request.metadata)
            )
        changes_of = GrpcToRest.convert_vectors_config_diff
        diffs = changes_of(request.vectors_config) if request.HasField("vectors_config") else {}
        for name, diff in diffs.items():
            compressed = diff.quantization_config
            changes = {
                "hnsw_config": diff.hnsw_config,
                "quantization_config": None if compressed is models.Disabled.DISABLED else compressed,
            }
            self._double._config[name] = self._double._config[name].model_copy(update=changes)
        return wire.CollectionOperationResponse(result=True)

    async def Get(self, request: Any, context: Any) -> Any:  # noqa: N802
        try:
            info = await self._local.get_collection(request.collection_name)
        except ValueError as error:
            await context.abort(StatusCode.NOT_FOUND, str(error))
        info.config.params.vectors = self._double._config
        reply = RestToGrpc.convert_collection_info(info)
        if self._double.statuses:
            reply.status = self._double.statuses.pop(0)
        for name in self._double._indexes:
            reply.payload_schema[name].data_type = wire.PayloadSchemaType.Keyword
        return wire.GetCollectionInfoResponse(result=reply)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
