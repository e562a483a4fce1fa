"""The line to a Milvus server or cluster: bounded, retried calls; its errors in our terms, without the token."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

import grpc
from pymilvus import AsyncMilvusClient, MilvusException

from slipstream.errors import ConfigError, DataError, SlipstreamError, Unavailable
from slipstream.settings import MilvusSettings
from slipstream.stores.retry import RetryPolicy, retrying

T = TypeVar("T")

log = logging.getLogger(__name__)
logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
"""It prints a traceback for every error that it also raises; `_mapped` logs one line."""

_PASSING = frozenset((1, 2, 3, 5, 6, 7, *range(100, 107), *range(500, 510), *range(600, 606), *range(901, 905)))
"""Codes of a server that starts, moves segments or changes an alias over; every call of ours may run twice."""
_INVALID = frozenset((1100, 1101))
_NOT_FOUND = 100
_REFUSED = frozenset((grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED))
_REFUSED_CODES = frozenset((1400, 1401))
_INNER_SHARE = 0.9
"""The client's own bound comes first, since its error says why."""
_BUILD_S = 6 * 3_600.0


@dataclass(frozen=True, slots=True)
class MilvusVersion:
    major: int
    minor: int
    text: str

    @property
    def has_sparse(self) -> bool:
        """Sparse vectors, several vectors a row, and upserts that find a tenant's partition."""
        return (self.major, self.minor) >= (2, 4)

    @property
    def is_lite(self) -> bool:
        """The library for tests that speaks for a server and lacks some of its calls."""
        return self.text.startswith("milvus_lite")


class MilvusConnection:
    """Belongs to the event loop that opened it."""

    def __init__(
        self, settings: MilvusSettings, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        self._settings = settings
        self._token = "" if settings.token is None else settings.token.get_secret_value()
        self.where = urlsplit(settings.uri).netloc or settings.uri
        self.sleep = sleep
        self._client: AsyncMilvusClient | None = None
        self._reads = RetryPolicy(settings.timeout_s, settings.attempts)
        self._writes = RetryPolicy(settings.write_timeout_s, settings.attempts)
        self._builds = RetryPolicy(_BUILD_S, settings.attempts)

    @property
    def is_open(self) -> bool:
        return self._client is not None

    async def open(self) -> None:
        """Connects with the first call. Raises ConfigError for an address that cannot be one."""
        try:
            self._client = AsyncMilvusClient(
                uri=self._settings.uri,
                token=self._token,
                db_name=self._settings.database,
                timeout=self._settings.timeout_s * _INNER_SHARE,
                dedicated=True,
            )
        except MilvusException as error:
            raise ConfigError(f"milvus.uri {self.where} cannot be used: {error.message}") from None

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def version(self) -> MilvusVersion:
        said = await self.read(lambda client, s: client.get_server_version(timeout=s))
        found = re.search(r"(\d+)\.(\d+)", said)
        if found is None:
            raise ConfigError(f"{self.where} calls itself {said!r}, which is no version of Milvus.")
        return MilvusVersion(int(found[1]), int(found[2]), said)

    async def read(self, operation: Callable[[Any, float], Awaitable[T]]) -> T:
        """Runs `operation(client, seconds)`. Raises Unavailable within `timeout_s`, DataError for invalid values."""
        return await self._run(operation, self._reads)

    async def write(self, operation: Callable[[Any, float], Awaitable[T]]) -> T:
        """Likewise within `write_timeout_s`. The operation may run twice."""
        return await self._run(operation, self._writes)

    async def build(self, operation: Callable[[Any, float], Awaitable[T]]) -> T:
        """Likewise, for what takes as long as there is data."""
        return await self._run(operation, self._builds)

    async def exists(self, operation: Callable[[Any, float], Awaitable[T]]) -> T | None:
        """`read`, with None for a collection or alias that is not there."""

        async def asked(client: Any, seconds: float) -> T | None:
            try:
                return await operation(client, seconds)
            except MilvusException as error:
                if is_missing(error):
                    return None
                raise

        return await self.read(asked)

    async def _run(self, operation: Callable[[Any, float], Awaitable[T]], policy: RetryPolicy) -> T:
        client = self._client
        if client is None:
            raise Unavailable("The store is not open.")
        seconds = policy.within_s * _INNER_SHARE
        try:
            return await retrying(
                lambda: operation(client, seconds), policy=policy, retry_on=_may_pass, sleep=self.sleep
            )
        except (MilvusException, grpc.RpcError, TimeoutError) as error:
            raise self._mapped(error, policy) from None  # the cause may carry what the server echoed

    def _mapped(self, error: Exception, policy: RetryPolicy) -> SlipstreamError:
        log.warning("Milvus at %s: %s", self.where, self._detail(error))
        code = _status(error)
        if code in _REFUSED or getattr(error, "code", None) in _REFUSED_CODES:
            return ConfigError(f"Milvus at {self.where} refuses the token: set milvus.token to a valid one.")
        if isinstance(error, TimeoutError) or code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return Unavailable(f"Milvus at {self.where} did not answer within {policy.within_s:g} s; try again.")
        if code is grpc.StatusCode.UNAVAILABLE or _cannot_connect(error):
            return Unavailable(
                f"Milvus at {self.where} cannot be reached. Check that it runs, and that milvus.uri names its port "
                "(19530 unless configured otherwise)."
            )
        if isinstance(error, MilvusException) and (error.is_input_error or error.code in _INVALID):
            return DataError("Milvus cannot keep or look up a value of this request; the server's log names it.")
        if isinstance(error, MilvusException) and error.code == _NOT_FOUND:
            return Unavailable(
                f"Milvus at {self.where} has no collection {self._settings.collection!r} any more. Restart to make a "
                "new one, then ingest again; or restore it from a backup."
            )
        return Unavailable(f"Milvus at {self.where} failed; its log and ours have the cause. Try again.")

    def _detail(self, error: Exception) -> str:
        said = f"{type(error).__name__} {error}".replace("\n", " ")[:500]
        return said.replace(self._token, "***") if self._token else said


def is_missing(error: MilvusException) -> bool:
    """Whether it says that a collection or an alias does not exist; versions differ in the code."""
    return error.code in {_NOT_FOUND, 1600} or "not found" in error.message or "can't find" in error.message


def _may_pass(error: Exception) -> bool:
    if isinstance(error, MilvusException) and (error.retriable or error.code in _PASSING):
        return True
    return _status(error) is grpc.StatusCode.UNAVAILABLE


def _status(error: Exception) -> Any:
    code = getattr(error, "code", None)
    return code() if callable(code) else code


def _cannot_connect(error: Exception) -> bool:
    return isinstance(error, MilvusException) and ("connect" in error.message.lower() or "Retry" in error.message)
