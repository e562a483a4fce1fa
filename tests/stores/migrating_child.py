"""Run as a process that dies in the middle of a copy, by its own hand and without a chance to tidy up."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from contracts.store_contract import DIMENSIONS

from slipstream.stores.migration import Copied, copy_all
from slipstream.stores.migration_ledger import MigrationLedger
from slipstream.stores.qdrant_edge import QdrantEdgeStore


async def migrate(directory: Path, dies_after: int) -> None:
    old, new = [QdrantEdgeStore(directory / name, dimensions=DIMENSIONS) for name in ("old", "new")]
    await old.open()
    await new.open()

    def die(copied: Copied) -> None:
        if copied.this_run >= dies_after:
            os.kill(os.getpid(), signal.SIGKILL)

    await copy_all(old, new, MigrationLedger(directory / "migrations.sqlite", "old", "new"), on_progress=die)


if __name__ == "__main__":
    asyncio.run(migrate(Path(sys.argv[1]), int(sys.argv[2])))
