"""Checks of the disks: room, permission, and whether another process holds the data."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import psutil

from slipstream.doctor.check import Check
from slipstream.doctor.configured import entries, status
from slipstream.doctor.facts import lock_holder
from slipstream.models.disk import free_space_bytes
from slipstream.settings import Settings

_GIB = 1 << 30
_DATA_FREE_BYTES = 2 * _GIB


def check_storage(settings: Settings) -> Iterator[Check]:
    yield _directory("data directory", settings.data.dir, _DATA_FREE_BYTES, "data.dir")
    missing = [entry for entry in entries(settings) if not status(entry, settings).ready]
    needed = sum(entry.bytes + entry.converted_bytes for entry in missing)
    needed += 2 * max((part.wheel_bytes for entry in missing for part in entry.parts), default=0)
    yield _directory("model cache", settings.models.cache_dir, needed, "models.cache_dir")
    yield _holder(settings.data.dir)


def _directory(name: str, directory: Path, needed_bytes: int, setting: str) -> Check:
    directory = directory.expanduser().absolute()
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    if not _writable(existing):
        return Check(
            name, "fail", f"{directory} cannot be written.", f"Set {setting} to a directory that you may write to."
        )
    free = free_space_bytes(directory)
    sentence = f"{directory}: {free / _GIB:.1f} GiB free."
    if free < needed_bytes:
        advice = f"At least {needed_bytes / _GIB:.1f} GiB are wanted: free some, or set {setting} to another disk."
        return Check(name, "fail" if setting == "models.cache_dir" else "warn", sentence, advice)
    return Check(name, "ok", sentence)


def _writable(directory: Path) -> bool:
    return directory.is_dir() and os.access(directory, os.W_OK | os.X_OK)


def _holder(directory: Path) -> Check:
    holder = lock_holder(directory)
    if holder is None:
        return Check("data in use", "ok", "No other process holds the data directory.")
    return Check(
        "data in use",
        "warn",
        f"{_process(holder)} holds {directory}.",
        "Ask or ingest through that server (--server URL), stop it, or set data.dir to another directory.",
    )


def _process(pid: int) -> str:
    try:
        return f"Process {pid} ({psutil.Process(pid).name()})"
    except psutil.Error:
        return f"Process {pid}"
