"""Paths → the files to ingest, in a fixed order, with a document id for each."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TypeAlias

from slipstream.ingest.report import Problem

_SETTLED_NS = 2_000_000_000
"""A file changed this recently may change again within its time stamp's resolution."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    id: str
    """Path below the root with forward slashes."""
    path: Path
    root: str
    """Absolute path of the folder given, or of the folder that holds the file given."""
    size: int
    time: float
    mtime_ns: int
    ctime_ns: int
    inode: int

    def signature(self, now_ns: int) -> str:
        """Equal signatures mean equal content; empty when the file is too fresh to tell."""
        if now_ns - max(self.mtime_ns, self.ctime_ns) < _SETTLED_NS:
            return ""
        return f"{self.size}:{self.mtime_ns}:{self.ctime_ns}:{self.inode}"


Found: TypeAlias = FoundFile | Problem


def walk(paths: Sequence[Path], max_bytes: int) -> Iterator[Found]:
    """Yields files, and a Problem for whatever is left alone. Blocks on the disk; holds one folder per level.

    Hidden files and folders are left alone below a folder given, not when given themselves. Links to
    files are followed, links to folders are not: they may lead in circles.
    """
    for path in paths:
        if path.is_dir():
            root = path.resolve()
            yield from _folder(root, root, max_bytes)
        else:
            yield _file(path, Path(os.path.abspath(path)).parent, max_bytes)


def _folder(folder: Path, root: Path, max_bytes: int) -> Iterator[Found]:
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        yield Problem(_id(folder, root), f"The folder cannot be read: {error.strerror}.", "unreadable")
        return
    for entry in entries:
        path = folder / entry.name
        if entry.name.startswith("."):
            yield Problem(_id(path, root), "Hidden files and folders are left alone.", "hidden")
        elif entry.is_dir(follow_symlinks=False):
            yield from _folder(path, root, max_bytes)
        elif entry.is_dir():
            yield Problem(_id(path, root), "Links to folders are not followed.", "link")
        else:
            yield _file(path, root, max_bytes)


def _file(path: Path, root: Path, max_bytes: int) -> Found:
    absolute = Path(os.path.abspath(path))
    name = _id(absolute, root)
    if not _is_text(absolute):
        return Problem(name, "The path of the file is not UTF-8. Rename it.", "unreadable")
    try:
        status = absolute.stat()
    except OSError as error:
        return Problem(name, f"The file cannot be read: {error.strerror}.", "unreadable")
    if not stat.S_ISREG(status.st_mode):
        return Problem(name, "This is no regular file.", "special")
    if status.st_size > max_bytes:
        reason = f"The file is larger than {max_bytes >> 20} MiB. Split it, or raise ingest.max_file_mib."
        return Problem(name, reason, "too_large")
    return FoundFile(
        name,
        absolute,
        str(root),
        status.st_size,
        status.st_mtime,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_ino,
    )


def _id(path: Path, root: Path) -> str:
    """Text in any case: bytes of a name that are not UTF-8 are shown as escapes."""
    name = PurePath(os.path.relpath(path, root)).as_posix()
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _is_text(path: Path) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True
