"""How each kind of source becomes a directory that loads: obtain its files, then make the directory."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from slipstream.models.catalogue import CatalogueEntry
from slipstream.models.conversion import run_conversion
from slipstream.models.convert_gguf import checked_header, convert_gguf, languages_of
from slipstream.models.cross_encoder_directory import CARD, CrossEncoderDirectory
from slipstream.models.disk import require_space
from slipstream.models.encoder_directory import EncoderDirectory
from slipstream.models.fetch import fetch_entry
from slipstream.models.gguf_header import read_gguf_header
from slipstream.models.hub import HubRef, fetch_hub
from slipstream.models.local_models import encoder_languages, read_config
from slipstream.models.manifest import Description
from slipstream.models.ready import ModelKind, ProgressSink
from slipstream.types import Language

_CONVERTED_SHARE = 1.3
"""Bytes of a converted model per byte of its GGUF, at most: packing differs between the two."""


class Recipe(Protocol):
    """One source. `obtain` may use the network; `make` does not."""

    @property
    def name(self) -> str:
        """Also the name of its directory in the cache."""
        ...

    @property
    def kind(self) -> ModelKind: ...

    @property
    def title(self) -> str:
        """What the user calls it."""
        ...

    def needs_network(self, source_dir: Path) -> bool: ...

    def identity(self) -> str:
        """Changes when what it is made from changes; cheap."""
        ...

    def obtain(self, source_dir: Path, work_dir: Path, progress: ProgressSink) -> tuple[Path, ...]: ...

    def make(self, files: tuple[Path, ...], target_dir: Path) -> None: ...

    def describe(self, files: tuple[Path, ...]) -> Description: ...


@dataclass(frozen=True, slots=True)
class CatalogueRecipe:
    entry: CatalogueEntry

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def kind(self) -> ModelKind:
        return self.entry.kind

    @property
    def title(self) -> str:
        return self.entry.name

    def needs_network(self, source_dir: Path) -> bool:
        return not (source_dir / self.entry.file_name).exists()

    def identity(self) -> str:
        return f"sha256:{self.entry.sha256}"

    def obtain(self, source_dir: Path, work_dir: Path, progress: ProgressSink) -> tuple[Path, ...]:
        return (fetch_entry(self.entry, source_dir, work_dir, progress),)

    def make(self, files: tuple[Path, ...], target_dir: Path) -> None:
        if self.entry.format == "gguf":
            convert_gguf(files[0], target_dir)
        else:
            run_conversion("e5", files[0], target_dir)

    def describe(self, files: tuple[Path, ...]) -> Description:
        return Description(self.entry.languages, self.entry.licence)


@dataclass(frozen=True, slots=True)
class GgufRecipe:
    """A GGUF file of the user's: read where it lies, never copied."""

    path: Path

    @property
    def name(self) -> str:
        return cache_name(self.path.stem, str(self.path.resolve()))

    @property
    def kind(self) -> ModelKind:
        return "llm"

    @property
    def title(self) -> str:
        return self.path.name

    def needs_network(self, source_dir: Path) -> bool:
        return False

    def identity(self) -> str:
        facts = self.path.stat()
        return f"file:{self.path.resolve()}:{facts.st_size}:{facts.st_mtime_ns}"

    def obtain(self, source_dir: Path, work_dir: Path, progress: ProgressSink) -> tuple[Path, ...]:
        checked_header(self.path)
        needed_bytes = int(self.path.stat().st_size * _CONVERTED_SHARE)
        require_space(source_dir, needed_bytes, f"Converting {self.path.name}")
        return (self.path,)

    def make(self, files: tuple[Path, ...], target_dir: Path) -> None:
        convert_gguf(files[0], target_dir)

    def describe(self, files: tuple[Path, ...]) -> Description:
        return _gguf_description(files[0])


@dataclass(frozen=True, slots=True)
class HubRecipe:
    ref: HubRef
    kind: ModelKind

    @property
    def name(self) -> str:
        return cache_name(self.ref.repository.replace("/", "--"), f"{self.ref.name} {self.kind}")

    @property
    def title(self) -> str:
        return self.ref.name

    def needs_network(self, source_dir: Path) -> bool:
        return True

    def identity(self) -> str:
        return self.ref.name

    def obtain(self, source_dir: Path, work_dir: Path, progress: ProgressSink) -> tuple[Path, ...]:
        return fetch_hub(self.ref, self.kind, source_dir, progress)

    def make(self, files: tuple[Path, ...], target_dir: Path) -> None:
        if files[0].suffix == ".gguf":
            convert_gguf(files[0], target_dir)
            return
        root = _common_root(files)
        for file in files:
            _link_or_copy(file, target_dir / file.relative_to(root))
        if self.kind == "encoder":
            _name_encoder(target_dir, self.ref.repository)
        elif self.kind == "cross_encoder":
            _name_cross_encoder(target_dir, self.ref.repository)

    def describe(self, files: tuple[Path, ...]) -> Description:
        if files[0].suffix == ".gguf":
            return _gguf_description(files[0])
        return Description(self._languages(files), "unknown")

    def _languages(self, files: tuple[Path, ...]) -> frozenset[Language]:
        if self.kind != "llm":
            return encoder_languages(self.ref.repository)
        return languages_of(str(read_config(_common_root(files)).get("model_type", "")))


def cache_name(stem: str, identity: str) -> str:
    """A directory name that a person recognises and that no other source shares."""
    readable = re.sub(r"[^a-z0-9._-]+", "-", stem.lower()).strip("-.")[:60]
    return f"{readable}-{hashlib.sha256(identity.encode()).hexdigest()[:8]}"


def _gguf_description(path: Path) -> Description:
    header = read_gguf_header(path)
    languages = languages_of(header.architecture, header.texts("general.languages"))
    return Description(languages, header.text("general.license") or "unknown")


def _common_root(files: tuple[Path, ...]) -> Path:
    return Path(os.path.commonpath([file.parent for file in files]))


def _name_encoder(directory: Path, name: str) -> None:
    """An encoder takes its name from its directory, which is called the same for all that are cached."""
    card = EncoderDirectory(directory).card.model_copy(update={"name": name})
    (directory / "encoder.json").write_text(card.model_dump_json(indent=1), encoding="utf-8")


def _name_cross_encoder(directory: Path, name: str) -> None:
    card = CrossEncoderDirectory(directory).card.model_copy(update={"name": name})
    (directory / CARD).write_text(card.model_dump_json(indent=1), encoding="utf-8")


def _link_or_copy(file: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(file, target)
    except OSError:  # another disk, or one without hard links
        shutil.copyfile(file, target)
