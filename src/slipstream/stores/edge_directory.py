"""The directory of an embedded store: who holds it, what it was made for, which shard in it is current."""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ParamSpec, TypeVar
from uuid import uuid4

from filelock import FileLock, Timeout

from slipstream.errors import ConfigError, DataError, Unavailable
from slipstream.stores.index import IndexSpec, SearchSpec

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger(__name__)

FORMAT = 1
_COPY_BYTES = 1 << 22


@dataclass(frozen=True, slots=True)
class Manifest:
    """What is stored; kept in store.json."""

    format: int
    dimensions: int
    encoder: str
    """Name of the encoder whose vectors these are; empty when the caller named none."""
    shard: str
    """Name of the shard's directory; empty before the first one is complete. Names are never used twice: what an
    interrupted server's processes may still be writing must not be where their successors write."""
    index: IndexSpec = field(default_factory=IndexSpec)
    """What the current shard was built with."""
    search: SearchSpec = field(default_factory=SearchSpec)
    """What a search spends."""


class EdgeDirectory:
    """Every method blocks and belongs on a worker."""

    def __init__(self, path: Path, *, dimensions: int, encoder: str = "") -> None:
        self.path = path
        self.manifest = Manifest(FORMAT, dimensions, encoder, "")
        self._lock = FileLock(path / "store.lock", timeout=0, thread_local=False)

    @property
    def tokens(self) -> Path:
        return self.path / "tokens"

    @property
    def current(self) -> Path | None:
        """The shard in use, when there is one."""
        return self.path / self.manifest.shard if self.manifest.shard else None

    def new_shard(self) -> Path:
        """A place for a shard that is about to be made; `commit` makes it the current one."""
        return self.path / f"shard-{uuid4().hex}"

    def acquire(self) -> None:
        """Takes the directory for this process and reads what it holds.

        Raises ConfigError when it is held or cannot be written, DataError when it was made for other settings.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
        except Timeout:
            raise ConfigError(
                f"The data directory {self.path} is in use by process {self._holder()}. Stop that process, send your "
                "requests to it, or set data.dir to another directory."
            ) from None
        except OSError as error:
            raise ConfigError(f"The data directory {self.path} cannot be used: {error.strerror}.") from None
        try:
            (self.path / "store.pid").write_text(str(os.getpid()))
            self._read()
            self.drop_others()
        except BaseException:
            self._lock.release()
            raise

    def release(self) -> None:
        self._lock.release()

    def commit(self, shard: Path, index: IndexSpec) -> None:
        """Makes a complete shard the current one, atomically and for good."""
        self._write(replace(self.manifest, shard=shard.name, index=index))

    def spend(self, search: SearchSpec) -> None:
        """Keeps what a search spends."""
        self._write(replace(self.manifest, search=search))

    def sync_log(self) -> None:
        """Forces the current shard's write-ahead log to disk, from outside the process that writes it."""
        if self.current is not None:
            sync_log(self.current)

    def copy(self, source: Path, target: Path) -> None:
        """Copies a shard; nothing may write to it meanwhile. Raises OSError, leaving what was copied so far."""
        shutil.copytree(source, target, copy_function=_copy_without_holes)

    def drop_others(self) -> None:
        """Removes shards that are not current: an interrupted optimization's, or the one it replaced."""
        for path in self.path.glob("shard-*"):
            if self.current is None or path.stem != self.current.name:
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)

    def bytes_on_disk(self) -> int:
        return _bytes_below(self.path)

    def shard_bytes(self) -> int:
        """What the current shard takes on disk; 0 before there is one."""
        return 0 if self.current is None else _bytes_below(self.current)

    def _write(self, manifest: Manifest) -> None:
        draft = self.path / "store.json.new"
        with draft.open("w") as file:
            json.dump(asdict(manifest), file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path / "store.json")
        sync_path(self.path)
        self.manifest = manifest

    def _read(self) -> None:
        path = self.path / "store.json"
        if not path.exists():
            if any(self.tokens.glob("*.tokens")):
                raise DataError(f"{path} is missing beside stored passages. Restore it, or empty {self.path}.")
            return self._write(self.manifest)
        try:
            stored = _manifest(json.loads(path.read_text()))
        except (ValueError, TypeError):
            raise DataError(f"{path} is not readable as a manifest. Restore it, or empty {self.path}.") from None
        self._check(stored)
        self.manifest = replace(stored, encoder=stored.encoder or self.manifest.encoder)
        return None

    def _check(self, stored: Manifest) -> None:
        wanted = self.manifest
        for name, have, want in (
            ("format", stored.format, wanted.format),
            ("dimensions", stored.dimensions, wanted.dimensions),
            ("encoder", stored.encoder or wanted.encoder, wanted.encoder or stored.encoder),
        ):
            if have != want:
                raise DataError(
                    f"The passages in {self.path} were stored with {name} {have}, and the settings ask for {want}. "
                    "Go back to that setting, or set data.dir to another directory and ingest again."
                )

    def _holder(self) -> str:
        try:
            return (self.path / "store.pid").read_text().strip() or "unknown"
        except OSError:
            return "unknown"


def _manifest(stored: dict[str, Any]) -> Manifest:
    """Manifests of before say nothing of index and search: theirs are the defaults."""
    index, search = IndexSpec(**stored.pop("index", {})), SearchSpec(**stored.pop("search", {}))
    return Manifest(**stored, index=index, search=search)


def on_disk(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Runs work on files; what the disk refuses becomes Unavailable, with the detail in the log only."""
    try:
        return work(*args, **kwargs)
    except OSError as error:
        log.exception("The data directory failed.")
        raise Unavailable(
            "The disk with the data directory failed or is full. Check the server's log and free some space; "
            "nothing acknowledged is lost."
        ) from error


def _bytes_below(directory: Path) -> int:
    """Blocks in use; files that disappear meanwhile count nothing, since the engine merges segments when it likes."""
    size = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with suppress(FileNotFoundError):
                size += os.stat(os.path.join(folder, name), follow_symlinks=False).st_blocks * 512
    return size


def sync_files(directory: Path) -> None:
    """Forces every file below a directory to disk, and the directories that name them."""
    for folder, _, names in os.walk(directory):
        for name in names:
            sync_path(os.path.join(folder, name))
        sync_path(folder)


def sync_log(shard: Path) -> None:
    """Forces a shard's write-ahead log to disk, from outside the process that writes it."""
    sync_files(shard / "wal")


def sync_path(path: str | Path) -> None:
    """Forces what a directory names (or a file holds) to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _copy_without_holes(source: str, target: str) -> None:
    """Copies data only: the engine lays its files out with large holes, which a plain copy would fill with zeros."""
    with open(source, "rb") as old, open(target, "wb") as new:
        size = os.fstat(old.fileno()).st_size
        new.truncate(size)
        for start, end in _data_spans(old.fileno(), size):
            os.lseek(old.fileno(), start, os.SEEK_SET)
            os.lseek(new.fileno(), start, os.SEEK_SET)
            while start < end:
                piece = os.read(old.fileno(), min(end - start, _COPY_BYTES))
                if not piece:
                    break
                start += os.write(new.fileno(), piece)


def _data_spans(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    if not hasattr(os, "SEEK_DATA"):
        yield 0, size
        return
    end = 0
    while end < size:
        try:
            start = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole up to the end
                return
            raise
        end = os.lseek(descriptor, start, os.SEEK_HOLE)
        yield start, end
