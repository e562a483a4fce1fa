from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from slipstream.errors import ConfigError, Unavailable
from slipstream.ingest.ledger import DocumentRecord, Ledger
from slipstream.ingest.versions import DocumentKey

KEY = DocumentKey("t", "c", "a.md")
RECORD = DocumentRecord("t", "c", "a.md", "ready", "v1", passages=3, title="标题", source="a.md", root="/r")


@pytest.mark.anyio
async def test_a_document_from_begin_to_forget(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "deep" / "ledger.sqlite")
    await ledger.open()
    await ledger.begin([KEY], ["v1"])
    assert await ledger.page("t", None, None, 10) == []
    assert [record.version for record in await ledger.unfinished()] == [""]
    await ledger.accept([RECORD])
    assert await ledger.page("t", "c", None, 10) == [RECORD]
    assert await ledger.unfinished() == []
    await ledger.begin([KEY], ["v2"])
    found = await ledger.get(KEY)
    assert found is not None
    assert (found.state, found.version, found.passages) == ("writing", "v1", 3)
    assert len(await ledger.page("t", None, None, 10)) == 1
    await ledger.finish([KEY])
    await ledger.begin_delete(KEY)
    assert await ledger.page("t", None, None, 10) == []
    await ledger.forget(KEY)
    assert await ledger.get(KEY) is None
    await ledger.close()


@pytest.mark.anyio
async def test_it_survives_and_pages_by_id(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger(path)
    await ledger.open()
    await ledger.accept([DocumentRecord("t", "c", f"{n:02}", "ready", "v", root="/r") for n in range(7)])
    await ledger.accept([DocumentRecord("u", "c", "00", "ready", "v"), DocumentRecord("t", "d", "99", "ready", "v")])
    await ledger.close()
    again = Ledger(path)
    await again.open()
    assert [record.id for record in await again.page("t", None, DocumentKey("t", "c", "04"), 10)] == ["05", "06", "99"]
    assert [record.id for record in await again.page("t", "c", None, 2)] == ["00", "01"]
    assert [record.id for record in await again.under("t", "c", "/r", "05", 10)] == ["06"]
    await again.close()


@pytest.mark.anyio
async def test_pages_lose_no_document_whose_id_is_in_two_collections(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    await ledger.open()
    written = [
        DocumentRecord("t", collection, name, "ready", "v") for name in ("a", "b") for collection in ("c", "d", "e")
    ]
    await ledger.accept(written)
    seen: list[DocumentRecord] = []
    while page := await ledger.page("t", None, seen[-1].key if seen else None, 2):
        seen += page
    assert seen == written
    await ledger.close()


@pytest.mark.anyio
async def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    ledger = Ledger(path)
    with pytest.raises(ConfigError, match="another version of Slipstream"):
        await ledger.open()
    await ledger.close()


@pytest.mark.anyio
async def test_a_damaged_file_is_unavailable(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    path.write_bytes(b"not a database at all" * 100)
    ledger = Ledger(path)
    with pytest.raises(Unavailable, match="ledger"):
        await ledger.open()
    await ledger.close()


@pytest.mark.anyio
async def test_a_failure_names_no_path_but_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    ledger = Ledger(tmp_path / "file" / "ledger.sqlite")
    with pytest.raises(Unavailable, match="log has the cause") as failed:
        await ledger.open()
    assert str(tmp_path) not in failed.value.message
    assert str(tmp_path) in caplog.text
    await ledger.close()
