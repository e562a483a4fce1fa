"""Disk space, sizes, durable renames, and what a disk's refusals mean."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slipstream.errors import ConfigError

_FULL = {errno.ENOSPC, errno.EDQUOT}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}
_MIB = 1 << 20


@contextmanager
def disk_errors(directory: Path) -> Iterator[None]:
    """Turns a full, read-only or forbidden disk into ConfigError; other OSErrors pass."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise ConfigError(
                f"The disk that holds {directory} is full. Free some space "
                "(`slipstream models rm NAME` removes a model), or set models.cache_dir to a larger disk."
            ) from error
        if error.errno in _FORBIDDEN or isinstance(error, NotADirectoryError | FileExistsError):
            raise ConfigError(
                f"{error.filename or directory} cannot be written ({os.strerror(error.errno or 0)}). "
                "Set models.cache_dir to a directory that you may write to."
            ) from error
        raise


def require_space(directory: Path, needed_bytes: int, purpose: str) -> None:
    """Raises ConfigError when the disk of `directory` has less than `needed_bytes` free."""
    free_bytes = free_space_bytes(directory)
    if free_bytes < needed_bytes:
        raise ConfigError(
            f"{purpose} needs {needed_bytes // _MIB} MiB in {directory}, and {free_bytes // _MIB} MiB are free. "
            "Free some space, or set models.cache_dir to a larger disk."
        )


def free_space_bytes(directory: Path) -> int:
    """Free bytes on the disk where `directory` is, or will be."""
    existing = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    return shutil.disk_usage(existing).free


def size_bytes(path: Path) -> int:
    """Bytes of a file or of all files under a directory; 0 when it is not there. Symbolic links count as nothing."""
    if path.is_symlink() or not path.exists():
        return 0
    if path.is_file():
        return path.stat().st_size
    return sum(size_bytes(child) for child in path.iterdir())


def remove(path: Path) -> int:
    """Removes a file or a tree; returns the bytes freed."""
    freed_bytes = size_bytes(path)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    return freed_bytes


def sync(path: Path) -> None:
    """Makes a file's content, or a directory's entries, survive a power cut."""
    if path.is_dir() and os.name == "nt":
        return  # Windows has no handle on a directory to flush
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(directory: Path) -> None:
    for path in (*directory.rglob("*"), directory):
        if not path.is_symlink():
            sync(path)


def rename_durably(source: Path, target: Path) -> None:
    """Atomic rename, on disk when it returns."""
    source.rename(target)
    sync(target.parent)
