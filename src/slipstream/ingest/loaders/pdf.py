"""PDF → Document by way of a child process with limits on pages, memory and time."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from slipstream.errors import DataError
from slipstream.ingest.document import Document
from slipstream.ingest.loaders.pdf_text import Bookmark, PdfContent, assemble

MAX_PAGES = 20_000
MAX_CHARACTERS = 64 << 20
MAX_SECONDS = 900.0
MAX_CHILD_BYTES = 2 << 30
_CHILD = Path(__file__).with_name("pdf_child.py")
_TAIL_BYTES = 4_096
_SPARSE_CHARACTERS = 8
"""Fewer visible characters per page than this, on average, are page numbers at most, not a text layer."""

_REASONS = {
    "encrypted": "The PDF is encrypted. Save it without a password, and ingest it again.",
    "damaged": "The PDF is damaged and cannot be opened ({detail}).",
    "too_large": "The PDF is too long ({detail}). Split it.",
}


def load_pdf(path: Path, max_seconds: float = MAX_SECONDS) -> Document:
    """Raises DataError when the file is cut short, damaged, encrypted, has no text layer, or exceeds a limit.

    One child process per file: pdfium is native code that is not thread-safe, and a file that
    crashes or hangs it must not take the server along. Pages stream through; only text is kept.
    """
    if _is_cut_short(path):
        raise DataError(
            "The PDF is cut short: its end is missing. Fetch it again, and ingest the whole file.", code="truncated"
        )
    content = _read(path, max_seconds)
    if content.visible_characters < max(1, _SPARSE_CHARACTERS * len(content.pages)):
        raise DataError("The PDF has no text layer: its pages are images. Run OCR on it first.", code="no_text_layer")
    return assemble(content)


def _is_cut_short(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        tail = file.read()
    return b"%%EOF" not in tail and b"startxref" not in tail


def _read(path: Path, max_seconds: float) -> PdfContent:
    command = [sys.executable, "-I", str(_CHILD), str(path), str(MAX_PAGES), str(MAX_CHILD_BYTES)]
    with subprocess.Popen(  # noqa: S603
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as child:
        timer = threading.Timer(max_seconds, child.kill)
        timer.daemon = True
        timer.start()
        try:
            assert child.stdout is not None
            content = _collect(_messages(child.stdout))
            status = child.wait()
        finally:
            late = timer.finished.is_set()
            timer.cancel()
            child.kill()
    if late:
        raise DataError(f"Reading the PDF took more than {max_seconds:.0f} s. Split it.", code="too_slow")
    if status != 0 or content is None:
        raise DataError(f"The PDF crashed its reader (status {status}). Save it anew, and try again.", code="damaged")
    return content


def _messages(stdout: IO[bytes]) -> Iterator[dict[str, Any]]:
    """JSON objects, one a line, up to the point where the child died."""
    for line in stdout:
        if not line.endswith(b"\n"):
            return
        yield json.loads(line)


def _collect(messages: Iterator[dict[str, Any]]) -> PdfContent | None:
    """None when the child died before it opened the file."""
    opening = next(messages, None)
    if opening is None:
        return None
    if "error" in opening:
        raise _failure(opening["error"], opening["detail"])
    pages: list[str] = []
    warnings: list[str] = []
    characters = 0
    for message in messages:
        pages.append(message["text"].replace("\r\n", "\n").replace("\r", "\n"))
        characters += len(pages[-1])
        if characters > MAX_CHARACTERS:
            raise _failure("too_large", f"more than {MAX_CHARACTERS:,} characters")
        if message["failed"]:
            warnings.append(f"page {len(pages)} could not be read: {message['failed']}")
    bookmarks = tuple(Bookmark(*entry) for entry in opening["bookmarks"])
    return PdfContent(opening["title"], bookmarks, tuple(pages), tuple(warnings[:20]))


def _failure(code: str, detail: str) -> DataError:
    return DataError(_REASONS[code].format(detail=detail), code=code)
