"""Raw text of PDF pages → paragraphs: running headers dropped, lines joined, hyphens healed, bookmarks as sections."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slipstream.ingest.document import Builder, Document

_WIDE = "\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef"
_HYPHEN = re.compile(r"(?<=[^\W\d_])(?:[\ufffe\x02\u00ad]|-(?=\n[a-z]))\s*\n\s*")
_FRESH = re.compile(r"\s*(?:[-*•·▪–]\s|\(?\d{1,3}[.)、]|[（(]?[一二三四五六七八九十]+[、)）])")
_BETWEEN_WIDE = re.compile(rf"(?<=[{_WIDE}])\n(?=[{_WIDE}])")
_WIDE_CHARACTER = re.compile(rf"[{_WIDE}]")
_UNPRINTABLE = re.compile(r"[\ufffe\ufffd\x00-\x08\x0e-\x1f]")


@dataclass(frozen=True, slots=True)
class Bookmark:
    level: int
    title: str
    page: int
    """0-based."""


@dataclass(frozen=True, slots=True)
class PdfContent:
    """What the reader process found."""

    title: str
    bookmarks: tuple[Bookmark, ...]
    pages: tuple[str, ...]
    """Raw text of each page; empty for one that could not be read."""
    warnings: tuple[str, ...] = ()

    @property
    def visible_characters(self) -> int:
        return sum(len(re.sub(r"\s", "", page)) for page in self.pages)


def assemble(content: PdfContent) -> Document:
    builder = Builder()
    running = _running_lines(content.pages)
    marks: dict[int, list[Bookmark]] = {}
    for bookmark in content.bookmarks:
        marks.setdefault(bookmark.page, []).append(bookmark)
    for page, text in enumerate(content.pages):
        for bookmark in marks.get(page, ()):
            builder.outline.enter(bookmark.level, " ".join(bookmark.title.split()))
        for paragraph in _paragraphs(_body(text, running)):
            builder.add("text", paragraph, page=page + 1)
    return builder.build("pdf", content.title, content.warnings)


def _shape(line: str) -> str:
    return re.sub(r"\d+", "0", line.strip())


def _running_lines(pages: Sequence[str]) -> set[str]:
    """Headers and footers: a first or last line that most pages share, page numbers apart."""
    edges: Counter[str] = Counter()
    for page in pages:
        lines = page.strip().split("\n")
        edges.update({_shape(lines[0]), _shape(lines[-1])})
    return {line for line, count in edges.items() if count >= 5 and count * 2 > len(pages)}


def _body(page: str, running: set[str]) -> list[str]:
    lines = page.strip("\n").split("\n")
    if _shape(lines[0]) in running:
        del lines[0]
    if lines and _shape(lines[-1]) in running:
        del lines[-1]
    return lines


def _paragraphs(lines: list[str]) -> Iterator[str]:
    """Joins lines that the page's width broke; a short line, a blank or a bullet ends a paragraph."""
    width = max(map(_columns, lines), default=0)
    open_lines: list[str] = []
    for line in lines:
        full = bool(open_lines) and _columns(open_lines[-1]) >= 0.7 * width
        if open_lines and (not line.strip() or not full or _FRESH.match(line)):
            yield _joined(open_lines)
            open_lines = []
        if line.strip():
            open_lines.append(line)
    if open_lines:
        yield _joined(open_lines)


def _columns(line: str) -> int:
    return len(line) + len(_WIDE_CHARACTER.findall(line))


def _joined(lines: list[str]) -> str:
    text = _HYPHEN.sub("", "\n".join(line.rstrip() for line in lines))
    text = _BETWEEN_WIDE.sub("", text).replace("\n", " ")
    return _UNPRINTABLE.sub("", text)
