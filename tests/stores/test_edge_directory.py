from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
from contracts.store_contract import DIMENSIONS, A, encoding, indexed, numbered, texts_found, wordy

from slipstream.errors import ConfigError, DataError, Unavailable
from slipstream.stores.qdrant_edge import QdrantEdgeStore

pytestmark = pytest.mark.anyio


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[QdrantEdgeStore]:
    store = QdrantEdgeStore(tmp_path, dimensions=DIMENSIONS, encoder="test", rebuild_after=10)
    await store.open()
    yield store
    await store.close()


def host_of() -> psutil.Process:
    (host,) = (
        child
        for child in psutil.Process().children()
        if child.status() != psutil.STATUS_ZOMBIE and "slipstream.stores.edge_host" in child.cmdline()
    )
    return host


async def test_what_was_written_is_there_after_closing(store: QdrantEdgeStore, tmp_path: Path) -> None:
    await store.upsert(numbered(["kept words"]))
    await store.close()
    await store.close()
    again = QdrantEdgeStore(tmp_path, dimensions=DIMENSIONS, encoder="test")
    await again.open()
    assert await texts_found(again, "kept") == ["kept words"]
    await again.close()


async def test_a_second_holder_is_refused_and_harms_nothing(store: QdrantEdgeStore, tmp_path: Path) -> None:
    await store.upsert(numbered(["kept words"]))
    second = QdrantEdgeStore(tmp_path, dimensions=DIMENSIONS, encoder="test")
    with pytest.raises(ConfigError, match=rf"in use by process {os.getpid()}\. Stop that process"):
        await second.open()
    assert not second.healthy()
    await second.close()
    assert await texts_found(store, "kept") == ["kept words"]


@pytest.mark.parametrize(
    ("dimensions", "encoder", "named"),
    [(DIMENSIONS * 2, "test", "dimensions 32"), (DIMENSIONS, "another", "encoder test")],
)
async def test_other_settings_are_refused(
    store: QdrantEdgeStore, tmp_path: Path, dimensions: int, encoder: str, named: str
) -> None:
    await store.close()
    other = QdrantEdgeStore(tmp_path, dimensions=dimensions, encoder=encoder)
    with pytest.raises(DataError, match=f"stored with {named}.*ingest again"):
        await other.open()


async def test_a_newer_format_is_refused(store: QdrantEdgeStore, tmp_path: Path) -> None:
    await store.close()
    manifest = tmp_path / "store.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 99}))
    with pytest.raises(DataError, match="stored with format 99"):
        await QdrantEdgeStore(tmp_path, dimensions=DIMENSIONS).open()
    manifest.write_text("{")
    with pytest.raises(DataError, match="not readable"):
        await QdrantEdgeStore(tmp_path, dimensions=DIMENSIONS).open()


async def test_passages_without_their_manifest_are_not_overwritten(store: QdrantEdgeStore, tmp_path: Path) -> None:
    await store.upsert(numbered(["kept words"]))
    await store.close()
    (tmp_path / "store.json").unlink()
    with pytest.raises(DataError, match=r"store\.json is missing"):
        await QdrantEdgeStore(tmp_path, dimensions=DIMENSIONS).open()


async def test_a_full_disk_refuses_writes_and_keeps_what_is_there(tmp_path: Path) -> None:
    room = [1 << 40]
    store = QdrantEdgeStore(tmp_path, dimensions=DIMENSIONS, free=lambda _: room[0])
    await store.open()
    await store.upsert(numbered(["kept words"]))
    room[0] = 1 << 20
    with pytest.raises(Unavailable, match="nearly full"):
        await store.upsert(numbered(["new words"], first=1))
    assert await texts_found(store, "words") == ["kept words"]
    await store.delete_document("a", "main", "doc")
    assert await store.count(A) == 0
    await store.close()


async def test_when_its_process_dies_callers_are_told_and_nothing_is_lost(
    store: QdrantEdgeStore, tmp_path: Path
) -> None:
    await store.upsert(numbered(["kept words"]))
    host = host_of()
    host.send_signal(signal.SIGSTOP)  # so that the question is waiting when the end comes
    asked = asyncio.ensure_future(store.count(A))
    await asyncio.sleep(0)
    host.send_signal(signal.SIGKILL)
    with pytest.raises(Unavailable, match="has ended"):
        await asked
    with pytest.raises(Unavailable, match="has ended"):
        await store.count(A)
    assert not store.healthy()
    await store.close()
    again = QdrantEdgeStore(tmp_path, dimensions=DIMENSIONS, encoder="test")
    await again.open()
    assert await texts_found(again, "kept") == ["kept words"]
    await again.close()


async def test_a_store_that_is_not_open_says_so(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="not open"):
        await QdrantEdgeStore(tmp_path, dimensions=DIMENSIONS).count(A)


async def test_optimizing_drops_dead_token_vectors(tmp_path: Path) -> None:
    store = QdrantEdgeStore(tmp_path, dimensions=DIMENSIONS, rebuild_after=10)
    await store.open()
    await store.upsert(wordy(60))
    await store.close()  # the next opening begins a new token file
    await store.open()
    for position in range(40):
        await store.upsert([indexed(f"new {position}", position=position)])
    before = sorted((tmp_path / "tokens").iterdir())
    assert store.needs_optimize()
    await store.optimize()
    assert not store.needs_optimize()
    assert before[0] not in (tmp_path / "tokens").iterdir()
    ids = [passage.id async for batch in store.scan(A) for passage in batch]
    assert len(await store.fetch_tokens(ids, A)) == len(await store.score_tokens(encoding(1).tokens, ids, A)) == 60
    await store.close()


async def test_a_rebuild_that_finds_no_room_changes_nothing(tmp_path: Path) -> None:
    room = [1 << 40]
    store = QdrantEdgeStore(tmp_path, dimensions=DIMENSIONS, rebuild_after=1, free=lambda _: room[0])
    await store.open()
    await store.upsert(wordy(20))
    room[0] = 0
    with pytest.raises(Unavailable):
        await store.optimize()
    assert await store.count(A) == 20
    assert sum(name.startswith("shard-") and not name.endswith(".lock") for name in os.listdir(tmp_path)) == 1
    await store.close()
