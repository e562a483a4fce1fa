"""The line to a Qdrant server or cluster: bounded, retried calls; its errors in our terms, without the API key."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from typing import TypeVar
from urllib.parse import urlsplit

from grpc import StatusCode
from grpc.aio import AioRpcError
from qdrant_client import AsyncQdrantClient, grpc
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse

from slipstream.errors import ConfigError, DataError, SlipstreamError, Unavailable
from slipstream.settings import QdrantSettings
from slipstream.stores.retry import RetryPolicy, retrying

T = TypeVar("T")

log = logging.getLogger(__name__)

_PASSING = frozenset((StatusCode.UNAVAILABLE, StatusCode.RESOURCE_EXHAUSTED, StatusCode.ABORTED, StatusCode.CANCELLED))
"""What a server that restarts, moves a shard or limits its callers says; every call of ours may run twice."""
_REFUSED = frozenset((StatusCode.UNAUTHENTICATED, StatusCode.PERMISSION_DENIED))
_OPTIONS = {
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.min_reconnect_backoff_ms": 5_000,  # in spite of its name, how long one attempt to connect may take
    "grpc.max_reconnect_backoff_ms": 2_000,
    "grpc.keepalive_time_ms": 30_000,
    "grpc.keepalive_timeout_ms": 5_000,
}
"""The library would try a server that is back only after up to two minutes, and keep a dead connection for many."""


class NotApplied(Exception):
    """The server took a write and did not say that it is done."""


class QdrantConnection:
    """Belongs to the event loop that opened it."""

    def __init__(
        self, settings: QdrantSettings, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        self._settings = settings
        self._key = "" if settings.api_key is None else settings.api_key.get_secret_value()
        address = urlsplit(settings.url)
        self._host, self._port, self._secure = address.hostname, address.port or 6334, address.scheme == "https"
        self.where = f"{self._host}:{self._port}"
        self.sleep = sleep
        self._client: AsyncQdrantClient | None = None
        self._reads = RetryPolicy(settings.timeout_s, settings.attempts)
        self._writes = RetryPolicy(settings.write_timeout_s, settings.attempts)

    @property
    def is_open(self) -> bool:
        return self._client is not None

    @property
    def client(self) -> AsyncQdrantClient:
        """For what is rare. Raises Unavailable unless open."""
        if self._client is None:
            raise Unavailable("The store is not open.")
        return self._client

    @property
    def points(self) -> grpc.PointsStub:
        """For what is frequent: the client's own methods check and convert every number in Python."""
        stub: grpc.PointsStub = self.client.grpc_points
        return stub

    @property
    def write_timeout_s(self) -> float:
        return self._settings.write_timeout_s

    @property
    def timeout_s(self) -> float:
        return self._settings.timeout_s

    def open(self) -> None:
        """Connects with the first call."""
        self._client = AsyncQdrantClient(
            host=self._host,
            grpc_port=self._port,
            https=self._secure,
            prefer_grpc=True,
            headers={"api-key": self._key} if self._key else None,
            timeout=math.ceil(max(self.timeout_s, self.write_timeout_s)),
            pool_size=self._settings.connections,
            grpc_options=dict(_OPTIONS),
            check_compatibility=False,  # a thread that warns; `open` of the store refuses in plain words
        )

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def read(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Raises Unavailable within `timeout_s`, DataError for what the server calls invalid."""
        return await self._run(operation, self._reads)

    async def write(self, operation: Callable[[], Awaitable[T]]) -> T:
        """Likewise within `write_timeout_s`. The operation may run twice."""
        return await self._run(operation, self._writes)

    async def _run(self, operation: Callable[[], Awaitable[T]], policy: RetryPolicy) -> T:
        try:
            return await retrying(operation, policy=policy, retry_on=_may_pass, sleep=self.sleep)
        except (AioRpcError, ResourceExhaustedResponse, NotApplied, TimeoutError) as error:
            raise self._mapped(error, policy) from None  # the cause may carry what the server echoed

    def _mapped(self, error: Exception, policy: RetryPolicy) -> SlipstreamError:
        detail = self._detail(error)
        log.warning("Qdrant at %s: %s", self.where, detail)
        if isinstance(error, ResourceExhaustedResponse):
            return Unavailable(
                f"Qdrant at {self.where} limits its callers; try again.", retry_after_s=float(error.retry_after_s)
            )
        if isinstance(error, NotApplied):
            return Unavailable(f"Qdrant at {self.where} did not confirm a write in time; write it again.")
        code = error.code() if isinstance(error, AioRpcError) else StatusCode.DEADLINE_EXCEEDED
        if code in _REFUSED:
            return ConfigError(f"Qdrant at {self.where} refuses the API key: set qdrant.api_key to a valid one.")
        if code is StatusCode.INVALID_ARGUMENT:
            return DataError("Qdrant cannot keep or look up a value of this request; the server's log names it.")
        if code is StatusCode.NOT_FOUND:
            return Unavailable(
                f"Qdrant at {self.where} has no collection {self._settings.collection!r} any more. Restart to make a "
                "new one, then ingest again; or restore it from a snapshot."
            )
        if code is StatusCode.DEADLINE_EXCEEDED:
            return Unavailable(f"Qdrant at {self.where} did not answer within {policy.within_s:g} s; try again.")
        if code is StatusCode.UNAVAILABLE:
            return Unavailable(
                f"Qdrant at {self.where} cannot be reached. Check that it runs, and that qdrant.url names its gRPC "
                "port (6334 unless configured otherwise)."
            )
        return Unavailable(f"Qdrant at {self.where} failed ({code.name}); its log and ours have the cause. Try again.")

    def _detail(self, error: Exception) -> str:
        said = error.details() or "" if isinstance(error, AioRpcError) else str(error)
        code = error.code().name if isinstance(error, AioRpcError) else type(error).__name__
        return f"{code} {said.replace(self._key, '***') if self._key else said}"


def _may_pass(error: Exception) -> bool:
    if isinstance(error, AioRpcError):
        return error.code() in _PASSING
    return isinstance(error, NotApplied | ResourceExhaustedResponse)
