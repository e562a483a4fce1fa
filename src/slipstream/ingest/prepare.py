"""A file or upload → its passages, ready to be encoded: everything that happens before the store is touched."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from slipstream.errors import DataError
from slipstream.ingest import loaders
from slipstream.ingest.chunking import Chunk, ChunkLimits, CountTokens, chunk
from slipstream.ingest.document import Document
from slipstream.ingest.ledger import DocumentRecord
from slipstream.ingest.loaders.sniff import HEAD_BYTES
from slipstream.ingest.versions import DocumentKey, passage_id, reading_of, version_of
from slipstream.ingest.walk import FoundFile
from slipstream.text.language import language_of
from slipstream.types import Passage, Scalar

RESERVED = frozenset(name for name in Passage.__dataclass_fields__ if name not in {"metadata", "title"})
"""Payload fields that metadata may not take."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a document comes from, and what is said about it."""

    key: DocumentKey
    name: str
    """What readers see, and what tells the format."""
    time: float
    root: str = ""
    signature: str = ""
    metadata: Mapping[str, Scalar] | None = None
    media_type: str | None = None
    """One of MEDIA_TYPES: it goes before the name. None when nobody said."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A parsed document cut into spans; passages are made one by one, so that texts are not held twice."""

    source: Source
    version: str
    size: int
    document: Document
    chunks: tuple[Chunk, ...]

    @property
    def key(self) -> DocumentKey:
        return self.source.key

    @property
    def title(self) -> str:
        given = (self.source.metadata or {}).get("title")
        return str(given) if given else self.document.title or PurePath(self.source.name).stem

    def record(self, ingested: float) -> DocumentRecord:
        return DocumentRecord(
            self.key.tenant,
            self.key.collection,
            self.key.id,
            "ready",
            self.version,
            passages=len(self.chunks),
            title=self.title,
            source=self.source.name,
            type=self.document.type,
            time=self.source.time,
            size=self.size,
            root=self.source.root,
            signature=self.source.signature,
            ingested=ingested,
        )

    def passages(self) -> Iterator[Passage]:
        own = {name: value for name, value in self.document.metadata.items() if name not in RESERVED}
        metadata = {**own, **(self.source.metadata or {})}
        metadata.pop("title", None)
        for position, part in enumerate(self.chunks):
            text = self.document.text[part.start : part.end]
            yield Passage(
                id=passage_id(self.key, self.version, position),
                tenant=self.key.tenant,
                collection=self.key.collection,
                document_id=self.key.id,
                version=self.version,
                position=position,
                text=text,
                start=part.start,
                end=part.end,
                title=self.title,
                source=self.source.name,
                headings=part.headings,
                type=self.document.type,
                time=self.source.time,
                language=language_of(text),
                page=part.page,
                metadata=metadata,
            )


class Preparer:
    """Blocks and computes: its methods run on workers. Raises DataError with the reason for a file it cannot read."""

    def __init__(self, count_tokens: CountTokens, limits: ChunkLimits, pipeline: str) -> None:
        self._count_tokens = count_tokens
        self._limits = limits
        self._pipeline = pipeline

    def file(self, found: FoundFile, source: Source, known: DocumentRecord | None) -> Prepared | None:
        """None when the file holds the version already known."""
        reading = self._reading(source)
        if _is_settled(source, known, reading):
            return None
        with found.path.open("rb") as file:
            if loaders.kind(source.name, file.read(HEAD_BYTES)) != "pdf":
                file.seek(0)
                data = file.read(found.size + 1)
                _check_untouched(found)
                return self.upload(source, data, known)
            file.seek(0)
            version = version_of(hashlib.file_digest(file, "sha256").hexdigest(), reading)
        if _is_current(known, version):
            return None
        document = loaders.load_pdf_file(found.path)
        _check_untouched(found)
        return self._cut(source, version, found.size, document)

    def upload(self, source: Source, data: bytes, known: DocumentRecord | None) -> Prepared | None:
        """None when the bytes are the version already known."""
        version = version_of(hashlib.sha256(data).hexdigest(), self._reading(source))
        if _is_current(known, version):
            return None
        return self._cut(source, version, len(data), loaders.load_bytes(source.name, data, source.media_type))

    def _reading(self, source: Source) -> str:
        return reading_of(source.name, source.metadata or {}, self._pipeline, source.media_type)

    def _cut(self, source: Source, version: str, size: int, document: Document) -> Prepared:
        chunks = tuple(chunk(document, self._count_tokens, self._limits))
        if not chunks:
            raise DataError("The file holds no words.", code="empty")
        return Prepared(source, version, size, document, chunks)


def _is_current(known: DocumentRecord | None, version: str) -> bool:
    return known is not None and known.state == "ready" and known.version == version


def _is_settled(source: Source, known: DocumentRecord | None, reading: str) -> bool:
    """Whether size, times and inode show, without reading it, that the file is the one known."""
    if known is None or known.state != "ready" or not source.signature:
        return False
    return known.signature == source.signature and known.version.endswith(f"-{reading}")


def _check_untouched(found: FoundFile) -> None:
    now = found.path.stat()
    if (now.st_size, now.st_mtime_ns, now.st_ino) != (found.size, found.mtime_ns, found.inode):
        raise DataError("The file changed while it was read. Ingest it again.", code="changed")
