"""Plain text → blocks: paragraphs between blank lines."""

from __future__ import annotations

import re

from slipstream.ingest.decode import decode
from slipstream.ingest.document import Block, Document

_PARAGRAPH = re.compile(r"\S[^\n]*(?:\n[^\S\n]*\S[^\n]*)*")


def load_text(data: bytes) -> Document:
    """Raises DataError when the bytes are not text."""
    decoded = decode(data)
    blocks = tuple(Block(match.start(), match.end(), "text") for match in _PARAGRAPH.finditer(decoded.text))
    return Document(decoded.text, "text", blocks, warnings=(decoded.warning,) if decoded.warning else ())
