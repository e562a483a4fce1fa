"""A Milvus server that is away, silent or gone gives Unavailable in time, and a reason."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from pydantic import SecretStr

from slipstream.errors import Unavailable
from slipstream.settings import MilvusSettings
from slipstream.stores.milvus import MilvusStore
from slipstream.types import Scope


@pytest.fixture
async def silent() -> AsyncIterator[str]:
    """Takes connections and never says a word."""

    writers: list[asyncio.StreamWriter] = []

    async def listen(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()
    for writer in writers:
        writer.close()
    await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)


async def reason(uri: str) -> str:
    store = MilvusStore(MilvusSettings(uri=uri, token=SecretStr("root:secret"), timeout_s=1), dimensions=8)
    began = time.monotonic()
    with pytest.raises(Unavailable) as caught:
        await store.open()
    assert time.monotonic() - began < 5
    assert not store.healthy()
    return caught.value.message


@pytest.mark.anyio
async def test_a_server_that_is_away_is_named(caplog: pytest.LogCaptureFixture) -> None:
    said = await reason("http://127.0.0.1:9")
    assert "127.0.0.1:9" in said
    assert "milvus.uri" in said
    assert "secret" not in said + caplog.text


@pytest.mark.anyio
async def test_a_server_that_never_answers_is_given_up(silent: str) -> None:
    assert silent.removeprefix("http://") in await reason(silent)


@pytest.mark.anyio
async def test_a_store_that_is_not_open_says_so() -> None:
    store = MilvusStore(MilvusSettings(), dimensions=8)
    with pytest.raises(Unavailable, match="not open"):
        await store.count(Scope("a"))
    await store.close()
