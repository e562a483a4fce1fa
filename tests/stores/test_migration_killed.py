"""A copy that is killed goes on where it was, and ends as if nothing had happened."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from contracts.store_contract import DIMENSIONS, wordy

from slipstream.stores.migration import compare, copy_all
from slipstream.stores.migration_ledger import MigrationLedger
from slipstream.stores.qdrant_edge import QdrantEdgeStore

CHILD = Path(__file__).with_name("migrating_child.py")
_PATH = os.pathsep.join([str(CHILD.parents[1]), os.environ.get("PYTHONPATH", "")])


@pytest.mark.anyio
async def test_a_copy_killed_twice_is_completed(tmp_path: Path) -> None:
    old = QdrantEdgeStore(tmp_path / "old", dimensions=DIMENSIONS)
    await old.open()
    await old.upsert([*wordy(900), *wordy(300, tenant="b")])
    await old.close()
    for dies_after in (256, 300):
        child = await asyncio.create_subprocess_exec(
            sys.executable, str(CHILD), str(tmp_path), str(dies_after), env={**os.environ, "PYTHONPATH": _PATH}
        )
        assert await child.wait() == -signal.SIGKILL
    new = QdrantEdgeStore(tmp_path / "new", dimensions=DIMENSIONS)
    ledger = MigrationLedger(tmp_path / "migrations.sqlite", "old", "new")
    await old.open()
    await new.open()
    try:
        copied = await copy_all(old, new, ledger)
        before = 256 + (255 + 256)  # the first page behind an id is one short: it begins with that id
        assert (copied.passages, copied.this_run) == (1_200, 1_200 - before)
        assert (await compare(old, new, copied.tenants)).holds(1.0)
    finally:
        await ledger.close()
        await old.close()
        await new.close()
