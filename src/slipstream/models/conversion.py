"""Runs a model's conversion in a child process, so that its memory and its crashes are not ours."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Literal, TypeAlias

from slipstream.errors import DataError, Unavailable
from slipstream.models import conversion_child

Converter: TypeAlias = Literal["gguf", "e5"]


def run_conversion(converter: Converter, source: Path, target_dir: Path) -> None:
    """Converts `source` into `target_dir`, an empty directory; blocks until done.

    Raises DataError when the model cannot be converted, Unavailable when the child was killed from outside (memory).
    """
    command = [sys.executable, "-P", "-m", conversion_child.__name__, converter, str(source), str(target_dir)]
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT
        )
        try:
            code = child.wait()
        finally:
            child.kill()
            child.wait()
        said.seek(0)
        lines = said.read().decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
    if code < 0:
        raise _killed(source, signal.Signals(-code))
    if code == conversion_child.REFUSED:
        raise DataError(lines[-1])
    if code:
        raise DataError(f"{source.name} could not be converted: {lines[-1].strip()[:300]}")


def _killed(source: Path, by: signal.Signals) -> DataError | Unavailable:
    if by in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE):
        return DataError(
            f"{source.name} could not be converted: reading it crashed the converter ({by.name}), so it is most likely "
            "damaged. Fetch the file again, or try another quantisation."
        )
    needed_gib = max(1, source.stat().st_size * 4 >> 30)
    return Unavailable(
        f"Converting {source.name} was killed by {by.name}, most often for want of memory. "
        f"Free about {needed_gib} GiB of memory and try again, or take a smaller model."
    )
