"""Answers in SQLite: the contract, restarts, kills, bounds."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cache.entries_contract import EntriesContract
from cache.stored import DIMENSIONS, NOW, entry, vector

from slipstream.cache.entry import Feedback
from slipstream.cache.sqlite_entries import SqliteEntries

pytestmark = pytest.mark.anyio
DAY_S = 86_400.0


def sqlite_entries(directory: Path, max_bytes: int = 1 << 20, now: float = NOW) -> SqliteEntries:
    return SqliteEntries(
        directory / "answers.sqlite", dimensions=DIMENSIONS, max_bytes=max_bytes, max_age_s=DAY_S, clock=lambda: now
    )


class TestSqliteEntries(EntriesContract):
    @pytest.fixture
    async def entries(self, tmp_path: Path) -> AsyncIterator[SqliteEntries]:
        made = sqlite_entries(tmp_path)
        await made.open()
        yield made
        await made.close()


async def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    first = sqlite_entries(tmp_path)
    await first.open()
    for number in range(20):
        await first.put(entry(number))
    await first.close()
    second = sqlite_entries(tmp_path)
    await second.open()
    assert (await second.info()).entries == 20
    assert (await second.nearest("scope", vector(7), 1))[0].entry_id == "entry-7"
    await second.close()


_WRITER = """
import asyncio, sys
from pathlib import Path
from cache.stored import entry
from cache.test_sqlite_entries import sqlite_entries

async def main():
    entries = sqlite_entries(Path(sys.argv[1]))
    await entries.open()
    for number in range(100_000):
        await entries.put(entry(number))
        print(number, flush=True)

asyncio.run(main())
"""


async def test_a_kill_loses_no_whole_entry_and_damages_nothing(tmp_path: Path) -> None:
    tests = str(Path(__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([tests, *sys.path])}
    writer = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _WRITER, str(tmp_path), stdout=asyncio.subprocess.PIPE, env=environment
    )
    assert writer.stdout is not None
    for _ in range(50):
        written = int(await writer.stdout.readline())
    writer.kill()
    await writer.wait()
    entries = sqlite_entries(tmp_path)
    await entries.open()
    assert (await entries.info()).entries > written
    assert await entries.exact("scope", f"question {written}") is not None
    await entries.close()


async def test_a_file_that_is_no_database_is_begun_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "answers.sqlite").write_bytes(b"not a database at all" * 100)
    entries = sqlite_entries(tmp_path)
    await entries.open()
    await entries.put(entry(1))
    assert (await entries.info()).entries == 1
    assert "begun anew" in caplog.text
    await entries.close()


async def test_it_stays_within_its_bytes_and_keeps_what_saves_most(tmp_path: Path) -> None:
    entries = sqlite_entries(tmp_path, max_bytes=60_000)
    await entries.open()
    await entries.put(entry(0, cost_s=50.0))
    for number in range(1, 200):
        await entries.put(entry(number, cost_s=0.5))
    info = await entries.info()
    assert info.bytes <= 60_000
    assert 10 < info.entries < 199
    assert await entries.exact("scope", "question 0") is not None
    assert await entries.exact("scope", "question 1") is None
    assert "entry-1" not in {n.entry_id for n in await entries.nearest("scope", vector(1), 5)}
    await entries.close()


async def test_hits_keep_an_entry_that_would_have_gone(tmp_path: Path) -> None:
    entries = sqlite_entries(tmp_path, max_bytes=60_000)
    await entries.open()
    for number in range(20):
        await entries.put(entry(number, cost_s=0.5))
    for _ in range(50):
        await entries.hit("entry-3")
    for number in range(20, 120):
        await entries.put(entry(number, cost_s=0.5))
    assert await entries.exact("scope", "question 3") is not None
    assert await entries.exact("scope", "question 4") is None
    await entries.close()


async def test_what_is_too_old_is_not_found_and_gone_at_the_next_start(tmp_path: Path) -> None:
    entries = sqlite_entries(tmp_path)
    await entries.open()
    await entries.put(entry(1, stored_at=NOW - DAY_S - 1))
    await entries.put(entry(2))
    assert await entries.exact("scope", "question 1") is None
    assert not await entries.get(["entry-1"])
    await entries.close()
    later = sqlite_entries(tmp_path)
    await later.open()
    assert (await later.info()).entries == 1
    await later.close()


async def test_feedback_keeps_the_question(tmp_path: Path) -> None:
    entries = sqlite_entries(tmp_path)
    await entries.open()
    await entries.put(entry(1))
    await entries.record(Feedback("acme", "req_1", "entry-1", "bad", "wrong", NOW))
    await entries.close()
    with sqlite3.connect(tmp_path / "answers.sqlite") as database:
        assert database.execute("SELECT question, rating, comment FROM feedback").fetchall() == [
            ("question 1", "bad", "wrong")
        ]
    database.close()
