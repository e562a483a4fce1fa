"""A parsed document: its decoded text, and the blocks and sections found in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from slipstream.types import Scalar

DocumentType: TypeAlias = Literal["markdown", "text", "html", "pdf", "docx"]
BlockKind: TypeAlias = Literal["heading", "text", "code", "table"]

MEDIA_TYPES: Mapping[str, DocumentType] = {
    "text/markdown": "markdown",
    "text/x-markdown": "markdown",
    "text/plain": "text",
    "text/html": "html",
    "application/xhtml+xml": "html",
    "application/pdf": "pdf",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
}
"""How a sender may say what a document is, instead of its name."""


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, list, heading, table or piece of code; `[start, end)` characters of the text."""

    start: int
    end: int
    kind: BlockKind
    headings: tuple[str, ...] = ()
    """The section it stands in, outermost first; a heading counts itself."""
    page: int | None = None
    """1-based, for formats that have pages."""


@dataclass(frozen=True, slots=True)
class Document:
    text: str
    """What every character span refers to. Newlines are \\n only."""
    type: DocumentType
    blocks: tuple[Block, ...]
    """In order, not overlapping; what lies between two blocks is white space or markup."""
    title: str = ""
    metadata: Mapping[str, Scalar] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    """What was lost or guessed, one sentence each."""


class Outline:
    """The headings open at a point of the document."""

    def __init__(self) -> None:
        self._open: list[tuple[int, str]] = []

    def enter(self, level: int, heading: str) -> tuple[str, ...]:
        """Closes sections of this level and below, opens one, and returns the path to it."""
        while self._open and self._open[-1][0] >= level:
            self._open.pop()
        if heading:
            self._open.append((level, heading))
        return self.path

    @property
    def path(self) -> tuple[str, ...]:
        return tuple(heading for _, heading in self._open)


class Builder:
    """Puts a text together block by block, for formats whose bytes are not the text itself."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._blocks: list[Block] = []
        self.outline = Outline()

    def add(self, kind: BlockKind, text: str, *, page: int | None = None, tight: bool = False) -> None:
        """Appends a block; a tight one, such as a list item, continues the block before it on a new line."""
        text = text.strip("\n") if kind == "code" else text.strip()
        if not text.strip():
            return
        joins = tight and bool(self._blocks) and self._blocks[-1].kind == kind == "text"
        gap = ("\n" if joins else "\n\n") if self._length else ""
        start = self._blocks.pop().start if joins else self._length + len(gap)
        self._parts += (gap, text)
        self._length += len(gap) + len(text)
        self._blocks.append(Block(start, self._length, kind, self.outline.path, page))

    def heading(self, level: int, text: str, *, page: int | None = None) -> None:
        text = " ".join(text.split())
        if text:
            self.outline.enter(level, text)
            self.add("heading", text, page=page)

    def build(self, type: DocumentType, title: str = "", warnings: tuple[str, ...] = ()) -> Document:  # noqa: A002
        return Document("".join(self._parts), type, tuple(self._blocks), title.strip(), warnings=warnings)
