"""Files of every supported format → Document: the one border where parsers' errors become ours."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from slipstream.errors import DataError, SlipstreamError
from slipstream.ingest.document import Document, DocumentType
from slipstream.ingest.loaders.docx import load_docx
from slipstream.ingest.loaders.html import load_html
from slipstream.ingest.loaders.markdown import load_markdown
from slipstream.ingest.loaders.pdf import load_pdf
from slipstream.ingest.loaders.plain import load_text
from slipstream.ingest.loaders.sniff import HEAD_BYTES, sniff

MAX_TEXT_BYTES = 64 << 20
"""For all formats but PDF, which is read page by page: they are parsed as a whole."""

_LOADERS: dict[DocumentType, Callable[[bytes], Document]] = {
    "markdown": load_markdown,
    "text": load_text,
    "html": load_html,
    "docx": load_docx,
}


def kind(name: str, head: bytes, media_type: str | None = None) -> DocumentType:
    """What a file is, from its media type, else its name, and from its first HEAD_BYTES.

    Raises DataError when it is nothing we read.
    """
    if not head:
        raise DataError("The file is empty (0 bytes).", code="empty")
    return sniff(name, head, media_type)


def load_bytes(name: str, data: bytes, media_type: str | None = None) -> Document:
    """Parses a file held in memory. Blocks: call it on a worker.

    Raises DataError with the reason when the file is empty, damaged, binary or of another format.
    """
    found = kind(name, data[:HEAD_BYTES], media_type)
    if found == "pdf":
        with tempfile.TemporaryDirectory(prefix="slipstream-") as folder:
            path = Path(folder, "upload.pdf")
            path.write_bytes(data)
            return load_pdf_file(path)
    if len(data) > MAX_TEXT_BYTES:
        raise DataError(f"The file is larger than {MAX_TEXT_BYTES >> 20} MiB. Split it.", code="too_large")
    return _checked(lambda: _LOADERS[found](data))


def load_pdf_file(path: Path) -> Document:
    """Parses a PDF where it lies: it is never read into this process as a whole. Blocks, and raises, as load_bytes."""
    return _checked(lambda: load_pdf(path))


def _checked(load: Callable[[], Document]) -> Document:
    try:
        document = load()
    except (SlipstreamError, OSError, MemoryError):
        raise
    except Exception as error:  # parsers raise whatever they like on a damaged file
        raise DataError(f"The file could not be parsed ({type(error).__name__}: {error}).", code="damaged") from error
    if not document.text.strip():
        raise DataError("The file holds no text, only white space.", code="empty")
    return document
