"""The model cache on disk: one directory a model, changed only under its lock, swapped in whole."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from slipstream.errors import ConfigError
from slipstream.models.disk import disk_errors, remove, rename_durably, size_bytes, sync_tree
from slipstream.models.manifest import Manifest, read_manifest
from slipstream.models.ready import ReadyModel

_LOCKS = ".locks"
_WORK = ".work-"


class ModelHome:
    """`CACHE/NAME/source` holds what was fetched, `ready` what is loaded; `.work-*` belongs to the lock's holder."""

    def __init__(self, cache_dir: Path, name: str) -> None:
        self.name = name
        self.directory = cache_dir / name
        self.source_dir = self.directory / "source"
        self.ready_dir = self.directory / "ready"
        self._lock_file = cache_dir / _LOCKS / f"{name}.lock"

    def ready(self, source: str) -> ReadyModel | None:
        """The model, when it is whole and made from this source by what is installed. Reads no weights."""
        manifest = self.manifest()
        if manifest is None or not manifest.current(source) or not manifest.complete(self.ready_dir):
            return None
        return manifest.ready(self.ready_dir)

    def manifest(self) -> Manifest | None:
        return read_manifest(self.ready_dir)

    @contextmanager
    def locked(self, on_wait: Callable[[], None]) -> Iterator[None]:
        """Holds the model against other processes; what a killed one left half done is removed first."""
        with disk_errors(self.directory):
            self._lock_file.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self._lock_file)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                on_wait()
                lock.acquire()
            try:
                self._clean()
                yield
            finally:
                self._clean()
                lock.release()

    def work_path(self) -> Path:
        """A path on the cache's disk where nothing is yet."""
        self.directory.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=_WORK, dir=self.directory)) / "in"

    def install(self, made: Path) -> None:
        """Swaps a finished directory in: a reader sees the old one whole, the new one whole, or none."""
        sync_tree(made)
        if self.ready_dir.exists():
            rename_durably(self.ready_dir, self.work_path())
        rename_durably(made, self.ready_dir)
        self._clean()

    def size_bytes(self) -> int:
        return size_bytes(self.directory)

    def remove(self) -> int:
        """Bytes freed. Raises ConfigError when another process is working on the model."""
        with disk_errors(self.directory):
            self._lock_file.parent.mkdir(parents=True, exist_ok=True)
            try:
                with FileLock(self._lock_file, timeout=0):
                    return remove(self.directory)
            except Timeout:
                raise ConfigError(
                    f"{self.name} is being fetched or converted by another process. Stop that one first."
                ) from None

    def _clean(self) -> None:
        for leftover in self.directory.glob(f"{_WORK}*"):
            remove(leftover)


def homes(cache_dir: Path) -> list[ModelHome]:
    """Every model the cache has anything of, by name."""
    if not cache_dir.is_dir():
        return []
    names = (path.name for path in cache_dir.iterdir() if path.is_dir() and not path.name.startswith("."))
    return [ModelHome(cache_dir, name) for name in sorted(names)]
