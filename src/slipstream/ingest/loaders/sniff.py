"""What a file is, by its first bytes and its name, or why it is not for us."""

from __future__ import annotations

import io
import zipfile
from pathlib import PurePath

from slipstream.errors import DataError
from slipstream.ingest.document import MEDIA_TYPES, DocumentType

HEAD_BYTES = 4_096

_BY_SUFFIX: dict[str, DocumentType] = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".mdx": "markdown",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".pdf": "pdf",
    ".docx": "docx",
}
_FOREIGN = (
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office file (.doc, .xls, .ppt) or an encrypted one"),
    (b"\x89PNG\r\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"{\\rtf", "an RTF file"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"Rar!", "a RAR archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"\x7fELF", "a program"),
    (b"SQLite format 3\x00", "a database"),
)
_ADVICE = "Convert it to PDF, DOCX, HTML, Markdown or text, and ingest that."


def sniff(name: str, head: bytes, media_type: str | None = None) -> DocumentType:
    """The type of a file from its media type, else from its name, and from its first HEAD_BYTES.

    Raises DataError when the content is nothing we read, or contradicts what was said of it.
    """
    told = MEDIA_TYPES.get(media_type or "")
    named = told or _BY_SUFFIX.get(PurePath(name).suffix.lower())
    suffix = (told and f".{told}") or PurePath(name).suffix or "no suffix"
    for magic, what in _FOREIGN:
        if head.startswith(magic):
            raise DataError(f"The file holds {what}. {_ADVICE}", code="unsupported_format")
    if b"%PDF-" in head[:1024]:
        return _agree("pdf", named, suffix)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "docx" if named in {None, "docx"} and suffix in {".docx", "no suffix"} else _refuse_zip()
    if named in {"pdf", "docx"}:
        raise DataError(f"The file is named {suffix} but does not hold that format. {_ADVICE}", code="wrong_format")
    if named is None and head.lstrip()[:15].lower().startswith((b"<!doctype html", b"<html")):
        return "html"
    return named or "text"


def _agree(found: DocumentType, named: DocumentType | None, suffix: str) -> DocumentType:
    if named == found or suffix == "no suffix":
        return found
    raise DataError(
        f"The file is named {suffix} but holds a {found.upper()}. Rename it to .{found}, and ingest it again.",
        code="wrong_format",
    )


def _refuse_zip() -> DocumentType:
    raise DataError(f"The file holds a zip archive or another Office format. {_ADVICE}", code="unsupported_format")


def check_docx(data: bytes, max_unpacked_bytes: int) -> None:
    """Raises DataError when a zip holds no Word document, is damaged, or unpacks to too much."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise DataError(f"The DOCX is damaged or cut short: {error}.", code="damaged") from error
    if not any(entry.filename == "word/document.xml" for entry in entries):
        _refuse_zip()
    unpacked = sum(entry.file_size for entry in entries if entry.filename.endswith((".xml", ".rels")))
    if unpacked > max_unpacked_bytes:
        raise DataError(
            f"The DOCX unpacks to {unpacked >> 20} MiB, over the limit of {max_unpacked_bytes >> 20} MiB. Split it.",
            code="too_large",
        )
