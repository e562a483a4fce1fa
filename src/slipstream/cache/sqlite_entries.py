"""Answers in SQLite, crash-safe, with their vectors in an index in memory."""

# ruff: noqa: S608 - statements are put together from the constants of this file; values are always bound

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from slipstream.cache.codec import FORMAT, decode_entry, encode_entry
from slipstream.cache.entry import EntriesInfo, Entry, Feedback, Neighbour, Purge
from slipstream.cache.eviction import Policy, cost_per_byte
from slipstream.cache.vectors import ScopeVectors, graph_of
from slipstream.errors import DataError, Unavailable
from slipstream.runtime.workers import Worker
from slipstream.types import Vector

T = TypeVar("T")

log = logging.getLogger(__name__)

_SCHEMA = f"""
CREATE TABLE entries (
    id TEXT PRIMARY KEY, tenant TEXT NOT NULL, scope TEXT NOT NULL, text TEXT NOT NULL, tag TEXT NOT NULL,
    stored_at REAL NOT NULL, cost_s REAL NOT NULL, size INTEGER NOT NULL, hits INTEGER NOT NULL DEFAULT 0,
    priority REAL NOT NULL, data BLOB NOT NULL, UNIQUE (scope, text)
) WITHOUT ROWID;
CREATE INDEX by_tenant ON entries (tenant, tag);
CREATE INDEX by_priority ON entries (priority);
CREATE INDEX by_age ON entries (stored_at);
CREATE TABLE cited (
    tenant TEXT NOT NULL, document TEXT NOT NULL, collection TEXT NOT NULL,
    entry TEXT NOT NULL REFERENCES entries (id) ON DELETE CASCADE, PRIMARY KEY (tenant, document, collection, entry)
) WITHOUT ROWID;
CREATE INDEX cited_by ON cited (entry);
CREATE TABLE feedback (
    at REAL NOT NULL, tenant TEXT NOT NULL, request TEXT NOT NULL, entry TEXT NOT NULL, question TEXT NOT NULL,
    rating TEXT NOT NULL, comment TEXT NOT NULL
);
PRAGMA user_version = {FORMAT};
"""
_ROW_BYTES = 512
"""Of keys and indexes, beside the data."""
_EVICT_TO = 0.95
"""Evicting a little more than needed makes it rare."""
_MAX_FEEDBACK = 100_000
_LOAD_ROWS = 512


class SqliteEntries:
    """Meets Entries. One process at a time owns the file, as it does the data directory."""

    def __init__(
        self,
        path: Path,
        *,
        dimensions: int,
        max_bytes: int,
        max_age_s: float,
        policy: Policy = cost_per_byte,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._dimensions = dimensions
        self._max_bytes = max_bytes
        self._max_age_s = max_age_s
        self._policy = policy
        self._clock = clock
        self._worker = Worker("answer-cache")
        self._database: sqlite3.Connection | None = None
        self._vectors: dict[str, ScopeVectors] = {}
        self._scopes: dict[str, str] = {}
        self._bytes = 0
        self._floor = 0.0
        self._uses = 0

    async def open(self) -> None:
        """Reads every vector; a file that cannot be read is begun anew, since a cache can be written again."""
        self._vectors, self._scopes = await self._worker.run(self._open)

    async def close(self) -> None:
        if self._database is not None:
            await self._worker.run(self._database.close)
            self._database = None
        await self._worker.close()

    async def exact(self, scope: str, text: str) -> Entry | None:
        found = await self._run(self._select, "scope = ? AND text = ?", (scope, text))
        return found[0] if found else None

    async def nearest(self, scope: str, vector: Vector, limit: int) -> Sequence[Neighbour]:
        vectors = self._vectors.get(scope)
        return vectors.nearest(vector, limit) if vectors is not None else ()

    async def get(self, entry_ids: Sequence[str]) -> Sequence[Entry]:
        if not entry_ids:
            return ()
        marks = ",".join("?" * len(entry_ids))
        found = {entry.id: entry for entry in await self._run(self._select, f"id IN ({marks})", tuple(entry_ids))}
        return [found[entry_id] for entry_id in entry_ids if entry_id in found]

    async def put(self, entry: Entry) -> None:
        gone = await self._run(self._insert, entry)
        self._unindex(gone)
        vectors = self._vectors.setdefault(entry.scope, ScopeVectors(self._dimensions))
        vectors.add(entry.id, entry.vector)
        self._scopes[entry.id] = entry.scope
        if vectors.crowded:
            vectors.adopt(await self._run(graph_of, *vectors.snapshot()))

    async def hit(self, entry_id: str) -> None:
        await self._run(self._touch, entry_id)

    async def purge(self, tenant: str, which: Purge) -> int:
        gone = await self._run(self._purge, tenant, which)
        self._unindex(gone)
        return len(gone)

    async def record(self, feedback: Feedback) -> None:
        await self._run(self._record, feedback)

    async def info(self, tenant: str | None = None) -> EntriesInfo:
        return await self._run(self._info, tenant)

    # --- on the event loop ---

    def _unindex(self, entry_ids: Iterable[str]) -> None:
        for entry_id in entry_ids:
            scope = self._scopes.pop(entry_id, None)
            vectors = self._vectors.get(scope) if scope is not None else None
            if scope is not None and vectors is not None:
                vectors.remove(entry_id)
                if not len(vectors):
                    del self._vectors[scope]

    async def _run(self, fn: Callable[..., T], *args: object) -> T:
        try:
            return await self._worker.run(fn, *args)
        except sqlite3.Error as error:
            raise Unavailable(f"The answer cache {self._path} cannot be used: {error}.") from None

    # --- on the worker ---

    @property
    def _db(self) -> sqlite3.Connection:
        if self._database is None:
            raise Unavailable("The answer cache is not open.")
        return self._database

    def _open(self) -> tuple[dict[str, ScopeVectors], dict[str, str]]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        try:
            return self._read()
        except (sqlite3.DatabaseError, DataError) as error:
            log.warning("The answer cache %s cannot be read and is begun anew: %s", self._path, error)
            if self._database is not None:
                self._database.close()
            for suffix in ("", "-wal", "-shm"):
                Path(f"{self._path}{suffix}").unlink(missing_ok=True)
            return self._read()

    def _read(self) -> tuple[dict[str, ScopeVectors], dict[str, str]]:
        self._database = db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA foreign_keys = ON")
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version != FORMAT:
            self._create(db)
        self._expire()
        self._floor = float(db.execute("SELECT min(priority) FROM entries").fetchone()[0] or 0.0)
        self._bytes = self._stored_bytes()
        vectors: dict[str, ScopeVectors] = {}
        scopes: dict[str, str] = {}
        rows = db.execute("SELECT data FROM entries")
        while some := rows.fetchmany(_LOAD_ROWS):
            for (data,) in some:
                entry = decode_entry(data)
                if len(entry.vector) != self._dimensions:
                    raise DataError("it was written with another encoder")
                vectors.setdefault(entry.scope, ScopeVectors(self._dimensions)).add(entry.id, entry.vector)
                scopes[entry.id] = entry.scope
        for crowd in vectors.values():
            if crowd.crowded:
                crowd.adopt(graph_of(*crowd.snapshot()))
        return vectors, scopes

    def _stored_bytes(self) -> int:
        return int(self._db.execute("SELECT total(size) FROM entries").fetchone()[0])

    def _create(self, db: sqlite3.Connection) -> None:
        for table in ("cited", "feedback", "entries"):
            db.execute(f"DROP TABLE IF EXISTS {table}")
        db.executescript(f"BEGIN; {_SCHEMA} COMMIT;")

    def _select(self, where: str, values: tuple[object, ...]) -> list[Entry]:
        oldest = self._clock() - self._max_age_s
        rows = self._db.execute(f"SELECT data FROM entries WHERE {where} AND stored_at > ?", (*values, oldest))
        return [decode_entry(data) for (data,) in rows.fetchall()]

    def _insert(self, entry: Entry) -> list[str]:
        """Returns the ids that made room."""
        data = encode_entry(entry)
        size = len(data) + _ROW_BYTES
        self._uses += 1
        priority = self._policy(hits=0, cost_s=entry.cost_s, size_bytes=size, floor=self._floor, now=self._now())
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            gone = self._drop("scope = ? AND text = ?", (entry.scope, entry.text))
            db.execute(
                "INSERT INTO entries (id, tenant, scope, text, tag, stored_at, cost_s, size, priority, data) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (entry.id, entry.tenant, entry.scope, entry.text, entry.tag, entry.stored_at, entry.cost_s, size,
                 priority, data),
            )  # fmt: skip
            db.executemany(
                "INSERT OR IGNORE INTO cited (tenant, document, collection, entry) VALUES (?, ?, ?, ?)",
                [(entry.tenant, cited.document_id, cited.collection, entry.id) for cited in entry.cited],
            )
            self._bytes += size
            gone += self._evict()
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            self._bytes = self._stored_bytes()
            raise
        return [entry_id for entry_id in gone if entry_id != entry.id]

    def _evict(self) -> list[str]:
        if self._bytes <= self._max_bytes:
            return []
        gone = self._expire()
        excess = self._bytes - int(self._max_bytes * _EVICT_TO)
        chosen = []
        for entry_id, size, priority in self._db.execute("SELECT id, size, priority FROM entries ORDER BY priority"):
            if excess <= 0:
                break
            chosen.append(entry_id)
            excess -= size
            self._floor = max(self._floor, priority)
        for entry_id in chosen:
            gone += self._drop("id = ?", (entry_id,))
        return gone

    def _expire(self) -> list[str]:
        return self._drop("stored_at <= ?", (self._clock() - self._max_age_s,))

    def _drop(self, where: str, values: tuple[object, ...]) -> list[str]:
        rows = self._db.execute(f"DELETE FROM entries WHERE {where} RETURNING id, size", values).fetchall()
        self._bytes -= sum(size for _, size in rows)
        return [entry_id for entry_id, _ in rows]

    def _touch(self, entry_id: str) -> None:
        row = self._db.execute("SELECT hits, cost_s, size FROM entries WHERE id = ?", (entry_id,)).fetchone()
        if row is None:
            return
        self._uses += 1
        hits, cost_s, size = row[0] + 1, row[1], row[2]
        priority = self._policy(hits=hits, cost_s=cost_s, size_bytes=size, floor=self._floor, now=self._now())
        self._db.execute("UPDATE entries SET hits = ?, priority = ? WHERE id = ?", (hits, priority, entry_id))

    def _now(self) -> float:
        return self._clock() + self._uses * 1e-6

    def _purge(self, tenant: str, which: Purge) -> list[str]:
        where, values = "tenant = ?", [tenant]
        if which.entry_id is not None:
            where, values = f"{where} AND id = ?", [*values, which.entry_id]
        if which.tag is not None:
            where, values = f"{where} AND tag = ?", [*values, which.tag]
        if which.document_id is not None:
            inner = "SELECT entry FROM cited WHERE tenant = ? AND document = ?"
            values = [*values, tenant, which.document_id]
            if which.collection is not None:
                inner, values = f"{inner} AND collection = ?", [*values, which.collection]
            where = f"{where} AND id IN ({inner})"
        return self._drop(where, tuple(values))

    def _record(self, feedback: Feedback) -> None:
        found = self._db.execute("SELECT text FROM entries WHERE id = ?", (feedback.entry_id,)).fetchone()
        self._db.execute(
            "INSERT INTO feedback VALUES (?, ?, ?, ?, ?, ?, ?)",
            (feedback.at, feedback.tenant, feedback.request_id, feedback.entry_id, found[0] if found else "",
             feedback.rating, feedback.comment),
        )  # fmt: skip
        self._db.execute("DELETE FROM feedback WHERE rowid <= (SELECT max(rowid) FROM feedback) - ?", (_MAX_FEEDBACK,))

    def _info(self, tenant: str | None) -> EntriesInfo:
        where, values = ("WHERE tenant = ?", (tenant,)) if tenant is not None else ("", ())
        row = self._db.execute(
            f"SELECT count(*), total(size), min(stored_at), total(hits), total(hits * cost_s) FROM entries {where}",
            values,
        ).fetchone()
        return EntriesInfo(int(row[0]), int(row[1]), row[2], int(row[3]), float(row[4]))
