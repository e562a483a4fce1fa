"""The record beside a converted model: what it was made from, with what, and what it must consist of."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from slipstream.models.ready import ModelKind, ReadyModel
from slipstream.types import Language

FORMATS: dict[ModelKind, int] = {"encoder": 3, "cross_encoder": 2, "llm": 2}
"""Raised when what conversion writes for a kind of model changes, so that its caches are made anew."""
MANIFEST_FILE = "manifest.json"
_LENGTHS = (
    ("encoder.json", "max_tokens"),
    ("cross_encoder.json", "max_tokens"),
    ("config.json", "max_position_embeddings"),
)
"""Where a model's card may state its longest input."""


class Named(Protocol):
    """What a manifest needs to know of the model it describes."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> ModelKind: ...


class FileRecord(BaseModel):
    model_config = ConfigDict(frozen=True)

    bytes: int
    sha256: str


class Manifest(BaseModel):
    """Written last, so that a directory with a manifest is whole."""

    model_config = ConfigDict(frozen=True)

    name: str
    kind: ModelKind
    source: str
    """Identity of the source: `sha256:…`, `file:<path>:<bytes>:<mtime_ns>` or `hf:…`."""
    made_with: dict[str, str]
    """Versions of the packages that converted it."""
    format: int
    licence: str
    languages: tuple[Language, ...]
    context_tokens: Annotated[int, Field(ge=1)] | None
    files: dict[str, FileRecord]

    def current(self, source: str) -> bool:
        """Whether it was made from this source, by these versions, in this format."""
        return (self.source, self.made_with, self.format) == (source, versions(), FORMATS[self.kind])

    def complete(self, directory: Path) -> bool:
        """Whether every file is there in full size; contents are not read."""
        sizes = ((directory / name, record.bytes) for name, record in self.files.items())
        return all(path.is_file() and path.stat().st_size == size for path, size in sizes)

    def damaged(self, directory: Path) -> tuple[str, ...]:
        """Names of files that are absent or altered; reads all of them."""
        return tuple(
            name
            for name, record in self.files.items()
            if not (directory / name).is_file() or record != record_of(directory / name)
        )

    def ready(self, directory: Path) -> ReadyModel:
        return ReadyModel(self.name, self.kind, directory, frozenset(self.languages), self.licence, self.context_tokens)


@dataclass(frozen=True, slots=True)
class Description:
    """What a person should know of a model, beside its files."""

    languages: frozenset[Language]
    licence: str


def versions() -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in ("openvino", "openvino-genai", "openvino-tokenizers")}


def record_of(path: Path) -> FileRecord:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return FileRecord(bytes=path.stat().st_size, sha256=digest)


def write_manifest(directory: Path, model: Named, source: str, description: Description) -> Manifest:
    """Records every file of a finished directory; reads them all."""
    manifest = Manifest(
        name=model.name,
        kind=model.kind,
        source=source,
        made_with=versions(),
        format=FORMATS[model.kind],
        licence=description.licence,
        languages=tuple(sorted(description.languages)),
        context_tokens=_context_tokens(directory),
        files={
            str(path.relative_to(directory)): record_of(path) for path in sorted(directory.rglob("*")) if path.is_file()
        },
    )
    (directory / MANIFEST_FILE).write_text(manifest.model_dump_json(indent=1), encoding="utf-8")
    return manifest


def _context_tokens(directory: Path) -> int | None:
    """The length that the model's own card gives, where there is one."""
    for file, key in _LENGTHS:
        try:
            length = json.loads((directory / file).read_text(encoding="utf-8"))[key]
        except (OSError, ValueError, KeyError):
            continue
        if isinstance(length, int):
            return length
    return None


def read_manifest(directory: Path) -> Manifest | None:
    """None when there is none, or none that this version understands."""
    try:
        return Manifest.model_validate_json((directory / MANIFEST_FILE).read_bytes())
    except (OSError, ValidationError):
        return None
