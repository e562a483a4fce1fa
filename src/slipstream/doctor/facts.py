"""What this process may use of the machine: cores and memory within its container, and who holds a directory."""

from __future__ import annotations

import math
import os
from itertools import islice
from pathlib import Path

import psutil

_SHOWN_FEATURES = {
    "avx2": "AVX2",
    "avx512f": "AVX-512",
    "avx512_vnni": "AVX-512 VNNI",
    "avx_vnni": "AVX-VNNI",
    "amx_tile": "AMX",
    "asimd": "NEON",
    "asimddp": "NEON dot product",
    "sve": "SVE",
}
_CGROUP = Path("/sys/fs/cgroup")
_LOOKED_AT = 4_096
"""Entries of a data directory that are compared with the kernel's locks: those that lock lie near the top."""


def usable_cores() -> int:
    """Cores after CPU affinity and the container's quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, _, period = _read(_CGROUP / "cpu.max").partition(" ")
    return min(cores, max(1, math.ceil(int(quota) / int(period)))) if quota.isdigit() and period.isdigit() else cores


def memory_bytes() -> tuple[int, int]:
    """(free, total) within the container's limit."""
    machine = psutil.virtual_memory()
    limit, used = _read(_CGROUP / "memory.max"), _read(_CGROUP / "memory.current")
    if not (limit.isdigit() and used.isdigit()):
        return machine.available, machine.total
    return min(machine.available, int(limit) - int(used)), min(machine.total, int(limit))


def cpu_features() -> tuple[str, ...]:
    """Vector features that matter to local models; empty where the system does not tell."""
    for line in _read(Path("/proc/cpuinfo")).splitlines():
        if line.startswith(("flags", "Features")):
            flags = line.split()
            return tuple(shown for flag, shown in _SHOWN_FEATURES.items() if flag in flags)
    return ()


def lock_holder(directory: Path) -> int | None:
    """The process that holds a lock on something in `directory`, as the kernel lists it; None where none or unknown.

    Reads only: taking the lock to see whether it is free could make a starting server fail.
    """
    locks = [line.split() for line in _read(Path("/proc/locks")).splitlines() if " FLOCK " in line]
    if not locks or not directory.is_dir():
        return None
    inodes = {path.stat().st_ino for path in islice(directory.glob("*/wal"), _LOOKED_AT)}
    inodes |= {path.stat().st_ino for path in islice(directory.rglob("*.lock"), _LOOKED_AT)}
    held = (int(lock[4]) for lock in locks if int(lock[5].rpartition(":")[2]) in inodes)
    return next((pid for pid in held if pid != os.getpid()), None)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
