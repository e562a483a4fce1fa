from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from contracts.store_contract import DIMENSIONS, A, encoding, indexed, numbered, texts_found, wordy

from slipstream.errors import ConfigError, DataError, Unavailable
from slipstream.stores.edge_directory import EdgeDirectory
from slipstream.stores.qdrant_edge import QdrantEdgeStore

pytestmark = pytest.mark.anyio


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[QdrantEdgeStore]:
    store = QdrantEdgeStore(tmp_path, dimensions=DIMENSIONS, encoder="test", rebuild_after=10)
    await store.open()
    yield store
    await store.close()


def hosts(niceness: int) -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process().children()
        if child.status() != psutil.STATUS_ZOMBIE
        and child.cmdline()[-2:] == ["slipstream.stores.edge_host", str(niceness)]
    ]


def host_of() -> psutil.Process:
    (host,) = hosts(0)
    return host


def shards(directory: Path) -> list[Path]:
    return [path for path in directory.glob("shard-*") if path.is_dir()]


async def stopped_rebuild() -> psutil.Process:
    """The process of the rebuild that has just been asked for, held still in the middle of it."""
    async with asyncio.timeout(30):
        while not (found := hosts(15)):  # noqa: ASYNC110 - a process that starts has no event
            await asyncio.sleep(0.001)
    found[0].suspend()
    return found[0]


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


async def test_a_signal_to_the_group_leaves_the_end_to_the_server(store: QdrantEdgeStore) -> None:
    host_of().send_signal(signal.SIGTERM)
    assert await store.count(A) == 0
    assert store.healthy()


async def test_a_copy_that_fails_is_removed_and_the_rebuild_can_be_tried_again(
    store: QdrantEdgeStore, tmp_path: Path
) -> None:
    await store.upsert(wordy(20))
    (shard,) = shards(tmp_path)
    (shard / "damaged").symlink_to("nowhere")
    with pytest.raises(Unavailable) as failed:
        await store.optimize()
    assert str(tmp_path) not in failed.value.message
    assert shards(tmp_path) == [shard]
    assert store.needs_optimize()
    (shard / "damaged").unlink()
    await store.optimize()
    assert not store.needs_optimize()
    assert await store.count(A) == 20


async def test_a_write_that_fails_during_a_rebuild_does_not_fail_the_rebuild(store: QdrantEdgeStore) -> None:
    await store.upsert(wordy(20))
    rebuilding = asyncio.create_task(store.optimize())
    patient = await stopped_rebuild()
    try:
        with pytest.raises(DataError):
            await store.upsert([indexed("fails", position=50, metadata={"half": "\ud800"})])
    finally:
        patient.resume()
    await rebuilding
    assert await store.count(A) == 20


async def test_cancelling_a_rebuild_ends_its_process_at_once(store: QdrantEdgeStore, tmp_path: Path) -> None:
    await store.upsert(wordy(20))
    rebuilding = asyncio.create_task(store.optimize())
    patient = await stopped_rebuild()
    try:
        rebuilding.cancel()
        async with asyncio.timeout(10):
            with pytest.raises(asyncio.CancelledError):
                await rebuilding
    finally:
        if patient.is_running():
            patient.resume()
    assert not patient.is_running()
    assert len(shards(tmp_path)) == 1
    assert store.needs_optimize()


async def test_a_rebuild_needs_room_for_its_copy_and_its_new_segments(tmp_path: Path) -> None:
    room = [1 << 40]
    store = QdrantEdgeStore(tmp_path, dimensions=DIMENSIONS, rebuild_after=1, free=lambda _: room[0])
    await store.open()
    await store.upsert(wordy(20))
    room[0] = 192 << 20  # enough for a write
    with pytest.raises(Unavailable, match="nearly full") as refused:
        await store.optimize()
    assert str(tmp_path) not in refused.value.message
    await store.upsert(numbered(["more words"], first=30))
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


def test_files_that_vanish_while_they_are_counted_count_nothing(tmp_path: Path) -> None:
    directory, done = EdgeDirectory(tmp_path, dimensions=DIMENSIONS), threading.Event()

    def churn() -> None:
        while not done.is_set():
            for number in range(50):
                (tmp_path / f"segment-{number}").touch()
            for number in range(50):
                (tmp_path / f"segment-{number}").unlink()

    with ThreadPoolExecutor(1) as pool:
        churning = pool.submit(churn)
        try:
            for _ in range(300):
                directory.bytes_on_disk()
        finally:
            done.set()
        churning.result()
