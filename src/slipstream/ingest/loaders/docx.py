"""Word documents → blocks: headings by style, lists, tables as rows of cells."""

from __future__ import annotations

import io
import re
from typing import Any

import docx
from docx.table import Table

from slipstream.ingest.document import Builder, Document
from slipstream.ingest.loaders.sniff import check_docx

MAX_UNPACKED_BYTES = 64 << 20
"""Unpacked XML; the tree takes some ten times as much."""

_HEADING = re.compile(r"(?:heading|标题|標題)\s*(\d)\Z", re.IGNORECASE)


def load_docx(data: bytes) -> Document:
    """Raises DataError when the archive is damaged, holds no Word document, or unpacks to too much."""
    check_docx(data, MAX_UNPACKED_BYTES)
    source = docx.Document(io.BytesIO(data))
    builder = Builder()
    for item in source.iter_inner_content():
        if isinstance(item, Table):
            builder.add("table", "\n".join(_row(row) for row in item.rows))
        else:
            _paragraph(builder, item)
    return builder.build("docx", source.core_properties.title or "")


def _paragraph(builder: Builder, paragraph: Any) -> None:
    style = (paragraph.style.name or "") if paragraph.style is not None else ""
    heading = _HEADING.match(style)
    if heading:
        builder.heading(int(heading.group(1)), paragraph.text)
    elif style in {"Title", "标题", "標題"}:
        builder.heading(0, paragraph.text)
    elif style.startswith("List") or _is_numbered(paragraph):
        builder.add("text", f"- {paragraph.text}" if paragraph.text.strip() else "", tight=True)
    else:
        builder.add("text", paragraph.text)


def _is_numbered(paragraph: Any) -> bool:
    properties = paragraph._p.pPr
    return properties is not None and properties.numPr is not None


def _row(row: Any) -> str:
    """Cells joined by bars; a merged cell, which python-docx repeats, is taken once."""
    cells: list[Any] = []
    for cell in row.cells:
        if not cells or cells[-1]._tc is not cell._tc:
            cells.append(cell)
    return " | ".join(" ".join(cell.text.split()) for cell in cells)
