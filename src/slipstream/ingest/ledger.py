"""Which version of which document is in the store, durable, and what was under way when the process died."""

# ruff: noqa: S608 - statements are put together from the constants of this file; values are always bound

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

from slipstream.errors import ConfigError, Unavailable
from slipstream.ingest.versions import DocumentKey
from slipstream.runtime.workers import Worker

T = TypeVar("T")

log = logging.getLogger(__name__)
State: TypeAlias = Literal["ready", "writing", "switching", "deleting"]
"""How a document moves, each step durable before the store is touched:

    (none) ── begin ──► writing ── accept ──► switching ── finish ──► ready ── begin_delete ──► deleting ── forget ──►

writing: passages of `pending` go in, those of `version` still hold. switching: `version` is the new one
and complete, older passages are going. Recovery undoes writing, and completes switching and deleting.
"""

_FORMAT = 1
_SCHEMA = """
CREATE TABLE documents (
    tenant TEXT NOT NULL, collection TEXT NOT NULL, id TEXT NOT NULL,
    state TEXT NOT NULL, version TEXT NOT NULL DEFAULT '', pending TEXT NOT NULL DEFAULT '',
    passages INTEGER NOT NULL DEFAULT 0, title TEXT NOT NULL DEFAULT '', source TEXT NOT NULL DEFAULT '',
    type TEXT NOT NULL DEFAULT '', time REAL NOT NULL DEFAULT 0, size INTEGER NOT NULL DEFAULT 0,
    root TEXT NOT NULL DEFAULT '', signature TEXT NOT NULL DEFAULT '', ingested REAL NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, id, collection)
) WITHOUT ROWID;
CREATE INDEX unfinished ON documents (state) WHERE state <> 'ready';
"""
_COLUMNS = (
    "tenant, collection, id, state, version, passages, title, source, type, time, size, root, signature, ingested"
)
_VISIBLE = "version <> '' AND state <> 'deleting'"
_THIS = "tenant = ? AND collection = ? AND id = ?"


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    """A document as the ledger knows it."""

    tenant: str
    collection: str
    id: str
    state: State
    version: str
    """Content hash and pipeline fingerprint; empty while the first version is being written."""
    passages: int = 0
    title: str = ""
    source: str = ""
    type: str = ""
    time: float = 0.0
    """Modification time, seconds since the epoch."""
    size: int = 0
    """Bytes of the file."""
    root: str = ""
    """Folder it was found under; empty for an upload."""
    signature: str = ""
    """Size, times and inode of the file when it was read; empty when they prove nothing."""
    ingested: float = 0.0
    """When this version became searchable, seconds since the epoch."""

    @property
    def key(self) -> DocumentKey:
        return DocumentKey(self.tenant, self.collection, self.id)


@dataclass(frozen=True, slots=True)
class TenantUse:
    """What a tenant keeps, by the ledger."""

    documents: int
    passages: int
    bytes: int
    """Of the files they came from."""


class Ledger:
    """A SQLite file on a thread of its own. Every change has survived a kill -9 when its method returns.

    Raises ConfigError when a newer program wrote the file, Unavailable when the disk fails.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._worker = Worker("ledger")
        self._db: sqlite3.Connection | None = None

    async def open(self) -> None:
        await self._worker.run(_mapped, self._connect)

    async def close(self) -> None:
        if self._db is not None:
            await self._worker.run(self._db.close)
            self._db = None
        await self._worker.close()

    # --- what is there ---

    async def get(self, key: DocumentKey) -> DocumentRecord | None:
        """The row of a document, whatever its state."""
        return (await self.get_many([key]))[0]

    async def get_many(self, keys: Sequence[DocumentKey]) -> list[DocumentRecord | None]:
        """The rows of several documents, in their order, in one trip to the ledger's thread."""
        statement = f"SELECT {_COLUMNS} FROM documents WHERE {_THIS}"
        rows = await self._worker.run(
            _mapped, lambda: [self._open_db().execute(statement, _key(key)).fetchone() for key in keys]
        )
        return [DocumentRecord(*row) if row else None for row in rows]

    async def page(
        self, tenant: str, collection: str | None, after: DocumentKey | None, limit: int
    ) -> list[DocumentRecord]:
        """Documents that can be searched, by id and then by collection, behind `after`."""
        behind = after or DocumentKey(tenant, "", "")
        where = f"tenant = ? AND (id, collection) > (?, ?) AND (? IS NULL OR collection = ?) AND {_VISIBLE}"
        return await self._select(
            f"SELECT {_COLUMNS} FROM documents WHERE {where} ORDER BY id, collection LIMIT ?",
            (tenant, behind.id, behind.collection, collection, collection, limit),
        )

    async def under(self, tenant: str, collection: str, root: str, after: str, limit: int) -> list[DocumentRecord]:
        """Documents found under a folder, by id, behind `after`."""
        where = f"tenant = ? AND id > ? AND collection = ? AND root = ? AND {_VISIBLE}"
        return await self._select(
            f"SELECT {_COLUMNS} FROM documents WHERE {where} ORDER BY id LIMIT ?",
            (tenant, after, collection, root, limit),
        )

    async def unfinished(self) -> list[DocumentRecord]:
        return await self._select(f"SELECT {_COLUMNS} FROM documents WHERE state <> 'ready'", ())

    async def use(self, tenant: str) -> TenantUse:
        """Sums over the documents that can be searched."""
        statement = (
            "SELECT COUNT(*), COALESCE(SUM(passages), 0), COALESCE(SUM(size), 0) FROM documents "
            f"WHERE tenant = ? AND {_VISIBLE}"
        )
        row = await self._worker.run(_mapped, lambda: self._open_db().execute(statement, (tenant,)).fetchone())
        return TenantUse(*row)

    async def emptying(self) -> list[str]:
        """Tenants of which nothing is left but documents that are being deleted."""
        statement = "SELECT tenant FROM documents GROUP BY tenant HAVING COUNT(*) = SUM(state = 'deleting')"
        rows = await self._worker.run(_mapped, lambda: self._open_db().execute(statement).fetchall())
        return [tenant for (tenant,) in rows]

    # --- how it changes: one transaction each ---

    async def begin(self, keys: Iterable[DocumentKey], versions: Iterable[str]) -> None:
        """→ writing. What held before still holds."""
        statement = (
            "INSERT INTO documents (tenant, collection, id, state, pending) VALUES (?, ?, ?, 'writing', ?) "
            "ON CONFLICT DO UPDATE SET state = 'writing', pending = excluded.pending"
        )
        await self._change(statement, [(*_key(key), version) for key, version in zip(keys, versions, strict=True)])

    async def accept(self, records: Sequence[DocumentRecord]) -> None:
        """→ the state each record names: the new version is complete and holds from here on."""
        marks = ", ".join("?" * len(_COLUMNS.split(",")))
        await self._change(
            f"INSERT OR REPLACE INTO documents ({_COLUMNS}) VALUES ({marks})", [_row(record) for record in records]
        )

    async def finish(self, keys: Iterable[DocumentKey]) -> None:
        """→ ready."""
        await self._change(
            f"UPDATE documents SET state = 'ready', pending = '' WHERE {_THIS}", [_key(key) for key in keys]
        )

    async def begin_delete(self, key: DocumentKey) -> None:
        """→ deleting: it is no longer listed."""
        await self._change(f"UPDATE documents SET state = 'deleting' WHERE {_THIS}", [_key(key)])

    async def forget(self, key: DocumentKey) -> None:
        await self._change(f"DELETE FROM documents WHERE {_THIS}", [_key(key)])

    async def begin_delete_tenant(self, tenant: str) -> None:
        """→ deleting, all of the tenant's at once: none of them is listed any more."""
        await self._change("UPDATE documents SET state = 'deleting' WHERE tenant = ?", [(tenant,)])

    async def forget_tenant(self, tenant: str) -> None:
        """Drops those that are being deleted."""
        await self._change("DELETE FROM documents WHERE tenant = ? AND state = 'deleting'", [(tenant,)])

    async def touch(self, key: DocumentKey, root: str, signature: str) -> None:
        """Notes that a file was found unchanged."""
        await self._change(
            f"UPDATE documents SET root = ?, signature = ? WHERE {_THIS}", [(root, signature, *_key(key))]
        )

    # --- the file ---

    def _connect(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        (found,) = self._db.execute("PRAGMA user_version").fetchone()
        if found == 0:
            self._db.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {_FORMAT}; COMMIT;")
        elif found != _FORMAT:
            raise ConfigError(
                f"{self._path} was written by another version of Slipstream (format {found}, here {_FORMAT}). "
                "Use that version, or another data directory."
            )

    async def _select(self, statement: str, values: Sequence[object]) -> list[DocumentRecord]:
        rows = await self._worker.run(_mapped, lambda: self._open_db().execute(statement, values).fetchall())
        return [DocumentRecord(*row) for row in rows]

    async def _change(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        await self._worker.run(_mapped, self._transact, statement, rows)

    def _transact(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        database = self._open_db()
        database.execute("BEGIN IMMEDIATE")
        try:
            database.executemany(statement, rows)
            database.execute("COMMIT")
        except BaseException:
            database.execute("ROLLBACK")
            raise

    def _open_db(self) -> sqlite3.Connection:
        if self._db is None:
            raise Unavailable("The ledger is not open.")
        return self._db


def _key(key: DocumentKey) -> tuple[str, str, str]:
    return key.tenant, key.collection, key.id


def _row(record: DocumentRecord) -> tuple[object, ...]:
    return tuple(getattr(record, name.strip()) for name in _COLUMNS.split(","))


def _mapped(work: Callable[..., T], *args: object) -> T:
    """Runs work on the database; SQLite's errors become ours."""
    try:
        return work(*args)
    except (sqlite3.Error, OSError) as error:
        log.exception("The ledger of ingested documents failed.")
        raise Unavailable(
            "The ledger of ingested documents failed; the server's log has the cause. Check the disk and the data "
            "directory's permissions."
        ) from error
