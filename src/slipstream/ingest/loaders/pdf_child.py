"""Child process that reads one PDF page by page and writes JSON lines, so that a hostile file harms nobody else.

Run as a script, apart from the package: `python -I pdf_child.py FILE MAX_PAGES MAX_BYTES`. It imports only pypdfium2.
"""

from __future__ import annotations

import json
import os
import sys
from itertools import islice
from typing import Any

MAX_BOOKMARKS = 5_000


def say(**fields: Any) -> None:
    sys.stdout.write(json.dumps(fields, ensure_ascii=True) + "\n")


def confine(max_bytes: int) -> None:
    """Caps the memory and steps behind the serving threads."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (max_bytes, max_bytes))
    os.nice(5)


def bookmarks(pdf: Any) -> list[tuple[int, str, int]]:
    """(level, title, 0-based page) of the outline; none when it is damaged."""
    found = []
    try:
        for mark in islice(pdf.get_toc(max_depth=6), MAX_BOOKMARKS):
            target = mark.get_dest()
            page = target.get_index() if target is not None else None
            if page is not None:
                found.append((mark.level, mark.get_title(), page))
    except Exception:  # an outline is a convenience: the pages are what counts
        return []
    return found


def page_text(pdf: Any, index: int) -> str:
    page = pdf[index]
    try:
        text = page.get_textpage()
        try:
            return str(text.get_text_range(errors="replace"))
        finally:
            text.close()
    finally:
        page.close()


def read(path: str, max_pages: int) -> None:
    import pypdfium2 as pdfium

    try:
        pdf = pdfium.PdfDocument(path)
    except pdfium.PdfiumError as error:
        say(error="encrypted" if "assword" in str(error) else "damaged", detail=str(error))
        return
    if len(pdf) > max_pages:
        say(error="too_large", detail=f"{len(pdf)} pages")
        return
    say(pages=len(pdf), title=pdf.get_metadata_value("Title") or "", bookmarks=bookmarks(pdf))
    for index in range(len(pdf)):
        try:
            say(text=page_text(pdf, index), failed="")
        except pdfium.PdfiumError as error:
            say(text="", failed=str(error))


if __name__ == "__main__":
    confine(int(sys.argv[3]))
    read(sys.argv[1], int(sys.argv[2]))
    sys.stdout.flush()
    os._exit(0)  # pdfium's own teardown can fail on a damaged file; everything has been said
