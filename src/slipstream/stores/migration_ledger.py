"""How far a copy from one store to another has come, durable, so that a killed one goes on where it was."""

# ruff: noqa: S608 - statements are put together from the constants of this file; values are always bound

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from slipstream.errors import Unavailable
from slipstream.runtime.workers import Worker
from slipstream.types import Passage

T = TypeVar("T")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS copies (
    source TEXT NOT NULL, target TEXT NOT NULL, after_id TEXT NOT NULL, PRIMARY KEY (source, target)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tenants (
    source TEXT NOT NULL, target TEXT NOT NULL, tenant TEXT NOT NULL, passages INTEGER NOT NULL,
    PRIMARY KEY (source, target, tenant)
) WITHOUT ROWID;
"""
_THESE = "source = ? AND target = ?"


@dataclass(frozen=True, slots=True)
class Progress:
    after_id: str | None = None
    """The last passage written; passages go in ascending order of id."""
    tenants: Mapping[str, int] = field(default_factory=dict)
    """Passages written, by tenant."""

    @property
    def passages(self) -> int:
        return sum(self.tenants.values())


class MigrationLedger:
    """One row a pair of stores, in a SQLite file. Raises Unavailable when the disk fails."""

    def __init__(self, path: Path, source: str, target: str) -> None:
        self._path = path
        self._these = (source, target)
        self._worker = Worker("migration-ledger")
        self._db: sqlite3.Connection | None = None

    async def open(self) -> Progress:
        """What an earlier run has written, when it did not come to its end."""
        return await self._run(self._open)

    async def close(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            await self._worker.run(db.close)
        await self._worker.close()

    async def advance(self, passages: Sequence[Passage]) -> None:
        """Records a batch that the target has made durable; on disk on return."""
        await self._run(self._advance, passages)

    async def clear(self) -> None:
        """The next copy begins at the beginning."""
        await self._run(self._clear)

    async def _run(self, work: Callable[..., T], *args: object) -> T:
        try:
            return await self._worker.run(work, *args)
        except (sqlite3.Error, OSError) as error:
            raise Unavailable(f"{self._path} cannot be written ({error}). Free some space, and run again.") from None

    def _open(self) -> Progress:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(self._path, check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.executescript(_SCHEMA)
        after = self._db.execute(f"SELECT after_id FROM copies WHERE {_THESE}", self._these).fetchone()
        counts = self._db.execute(f"SELECT tenant, passages FROM tenants WHERE {_THESE}", self._these).fetchall()
        return Progress(after[0], dict(counts)) if after else Progress()

    def _advance(self, passages: Sequence[Passage]) -> None:
        db = self._connected()
        with db:
            db.execute("BEGIN")
            db.execute("INSERT OR REPLACE INTO copies VALUES (?, ?, ?)", (*self._these, passages[-1].id))
            db.executemany(
                "INSERT INTO tenants VALUES (?, ?, ?, ?) "
                "ON CONFLICT DO UPDATE SET passages = passages + excluded.passages",
                [(*self._these, *item) for item in Counter(passage.tenant for passage in passages).items()],
            )

    def _clear(self) -> None:
        db = self._connected()
        with db:
            db.execute("BEGIN")
            db.execute(f"DELETE FROM copies WHERE {_THESE}", self._these)
            db.execute(f"DELETE FROM tenants WHERE {_THESE}", self._these)

    def _connected(self) -> sqlite3.Connection:
        if self._db is None:
            raise Unavailable("The ledger of the migration is not open.")
        return self._db
