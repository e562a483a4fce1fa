"""A Qdrant server that is silent, away, back, busy or strict: a clear answer in bounded time, then on as before."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from contracts.store_contract import DIMENSIONS, A, encoding, indexed, numbered
from grpc import StatusCode
from pydantic import SecretStr
from qdrant_client import grpc
from stores.qdrant_server import QdrantDouble, refuse

from slipstream.errors import ConfigError, DataError, SlipstreamError, Unavailable
from slipstream.settings import QdrantSettings
from slipstream.stores.qdrant import QdrantStore

PATIENT_S = 20.0
"""For calls that are answered, on however busy a machine."""
BOUND_S = 1.0
"""For calls that are not."""


def a_store(url: str, *, key: str | None = None, bound_s: float = PATIENT_S) -> QdrantStore:
    settings = QdrantSettings(
        url=url,
        timeout_s=bound_s,
        write_timeout_s=bound_s,
        api_key=None if key is None else SecretStr(key),
    )
    return QdrantStore(settings, dimensions=DIMENSIONS, encoder="test")


@pytest.fixture
async def double() -> AsyncIterator[QdrantDouble]:
    double = QdrantDouble()
    await double.start()
    yield double
    await double.close()


@pytest.fixture
async def store(double: QdrantDouble) -> AsyncIterator[QdrantStore]:
    store = a_store(double.url)
    await store.open()
    yield store
    await store.close()


def every_call(store: QdrantStore) -> dict[str, Callable[[], Awaitable[object]]]:
    passage, query = indexed("x"), encoding(1)
    ids = [passage.passage.id]

    async def scan() -> object:
        return [batch async for batch in store.scan(A)]

    async def export() -> object:
        return [batch async for batch in store.export()]

    return {
        "upsert": lambda: store.upsert([passage]),
        "delete": lambda: store.delete_scope(A),
        "dense": lambda: store.search_dense(query.dense, A, 5),
        "sparse": lambda: store.search_sparse("x", A, 5),
        "tokens": lambda: store.score_tokens(query.tokens, ids, A),
        "fetch": lambda: store.fetch(ids, A),
        "fetch_tokens": lambda: store.fetch_tokens(ids, A),
        "count": lambda: store.count(A),
        "scan": scan,
        "export": export,
        "info": store.info,
        "optimize": store.optimize,
    }


async def fails_in_time(call: Callable[[], Awaitable[object]], kind: type[SlipstreamError] = Unavailable) -> str:
    began = time.monotonic()
    with pytest.raises(kind) as raised:
        await call()
    assert time.monotonic() - began < PATIENT_S / 2
    return raised.value.message


@pytest.mark.anyio
async def test_a_server_that_never_answers_is_unavailable_within_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:  # the kernel takes connections, and nobody reads them
        port = listener.getsockname()[1]
        message = await fails_in_time(a_store(f"http://127.0.0.1:{port}", bound_s=BOUND_S).open)
    assert f"127.0.0.1:{port} did not answer within 1 s" in message


@pytest.mark.anyio
async def test_a_refused_connection_says_where_and_what_to_check() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    message = await fails_in_time(a_store(f"http://127.0.0.1:{port}").open)
    assert f"127.0.0.1:{port} cannot be reached" in message
    assert "gRPC port" in message


@pytest.mark.anyio
async def test_every_call_to_a_server_that_went_silent_ends_in_time(double: QdrantDouble) -> None:
    store = a_store(double.url, bound_s=BOUND_S)
    await store.open()

    async def hang(_: object) -> None:
        await asyncio.Event().wait()

    for name, call in every_call(store).items():
        double.fail = [hang]
        message = await fails_in_time(call)
        assert "did not answer within 1 s" in message, name
    await store.close()


@pytest.mark.anyio
async def test_the_store_is_used_again_once_the_server_is_back(double: QdrantDouble, store: QdrantStore) -> None:
    await store.upsert(numbered(["kept words"] * 3))
    await double.stop()
    for name, call in every_call(store).items():
        assert "cannot be reached" in await fails_in_time(call), name
    assert store.healthy()  # nothing here to restart
    await double.start()
    deadline = time.monotonic() + 10
    while True:
        try:
            found = await store.search_sparse("kept", A, 5)
            break
        except Unavailable:
            assert time.monotonic() < deadline, "the server is back and the store does not notice"
    assert len(found) == 3
    await store.upsert([indexed("new", position=7)])
    assert await store.count(A) == 4


@pytest.mark.anyio
@pytest.mark.parametrize("code", [StatusCode.UNAVAILABLE, StatusCode.RESOURCE_EXHAUSTED, StatusCode.ABORTED])
async def test_what_passes_by_itself_is_tried_again(double: QdrantDouble, store: QdrantStore, code: StatusCode) -> None:
    for name, call in every_call(store).items():
        double.fail = [refuse(code), refuse(code)]
        await call()
        assert not double.fail, name


@pytest.mark.anyio
async def test_attempts_are_counted(double: QdrantDouble, store: QdrantStore) -> None:
    double.requests.clear()
    double.fail = [refuse(StatusCode.UNAVAILABLE)] * 9
    await fails_in_time(lambda: store.count(A))
    assert len(double.seen(grpc.CountPoints)) == 4


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        (StatusCode.INVALID_ARGUMENT, DataError, "cannot keep or look up"),
        (StatusCode.UNAUTHENTICATED, ConfigError, "qdrant.api_key"),
        (StatusCode.PERMISSION_DENIED, ConfigError, "qdrant.api_key"),
        (StatusCode.NOT_FOUND, Unavailable, "has no collection 'slipstream'"),
        (StatusCode.INTERNAL, Unavailable, "failed (INTERNAL)"),
    ],
)
async def test_what_will_not_pass_is_told_at_once(
    double: QdrantDouble, store: QdrantStore, code: StatusCode, kind: type[SlipstreamError], said: str
) -> None:
    double.requests.clear()
    double.fail = [refuse(code)]
    assert said in await fails_in_time(lambda: store.count(A), kind)
    assert len(double.requests) == 1


@pytest.mark.anyio
async def test_the_key_is_sent_and_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    double = QdrantDouble(key="right-key")
    await double.start()
    try:
        right = a_store(double.url, key="right-key")
        await right.open()
        await right.upsert([indexed("x")])
        await right.close()
        wrong = a_store(double.url, key="secret-wrong-key")
        message = await fails_in_time(wrong.open, ConfigError)  # this server echoes the key in its refusal
        assert "refuses the API key" in message
        assert "Invalid API key ***" in caplog.text
        assert "secret-wrong-key" not in caplog.text + message + repr(wrong._settings)
    finally:
        await double.close()


@pytest.mark.anyio
async def test_a_caller_who_leaves_frees_the_server(double: QdrantDouble, store: QdrantStore) -> None:
    entered, left = asyncio.Event(), asyncio.Event()

    async def hang(_: object) -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    double.fail = [hang]
    task = asyncio.create_task(store.count(A))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(5):
        await left.wait()


@pytest.mark.anyio
async def test_two_servers_that_start_at_once_share_one_collection(double: QdrantDouble) -> None:
    stores = [a_store(double.url) for _ in range(4)]
    double.fail = []
    await asyncio.gather(*(store.open() for store in stores))
    await stores[0].upsert([indexed("x")])
    assert [await store.count(A) for store in stores] == [1] * 4
    for store in stores:
        await store.close()


@pytest.mark.anyio
async def test_a_closed_store_says_so(double: QdrantDouble) -> None:
    store = a_store(double.url)
    await store.open()
    await store.close()
    await store.close()
    assert not store.healthy()
    with pytest.raises(Unavailable, match="not open"):
        await store.count(A)
