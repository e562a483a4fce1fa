"""What provisioning hands out: models ready to load, the state of the cache, and progress on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from slipstream.types import Language

ModelKind: TypeAlias = Literal["encoder", "cross_encoder", "llm"]
Step: TypeAlias = Literal["wait", "fetch", "verify", "convert", "ready", "failed"]
"""In this order; every model that is not ready at once ends with ready or failed."""
ModelState: TypeAlias = Literal["ready", "outdated", "fetched", "partial", "absent"]


@dataclass(frozen=True, slots=True)
class ReadyModel:
    """A model on disk that an engine can load as it is."""

    name: str
    kind: ModelKind
    path: Path
    """Directory with an OpenVINO IR (or, but for language models, ONNX) and its tokenizer."""
    languages: frozenset[Language]
    """Languages it works in acceptably."""
    licence: str
    """SPDX identifier, or "unknown"."""
    context_tokens: int | None = None
    """Longest input it was trained for, where known."""


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """One model of the catalogue or the cache."""

    name: str
    kind: ModelKind
    state: ModelState
    """ready; outdated (converted for other versions); fetched (not converted yet); partial; absent."""
    bytes_on_disk: int
    download_bytes: int
    """What a pull from nothing transfers; 0 where unknown."""
    languages: frozenset[Language]
    licence: str
    title: str
    source: str
    """Where it comes from: package names, a path, or a hub repository."""

    @property
    def ready(self) -> bool:
        return self.state == "ready"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one step of one model is."""

    model: str
    step: Step
    done_bytes: int = 0
    total_bytes: int | None = None
    """None: the step's length is not known."""


ProgressSink: TypeAlias = Callable[[Progress], None]


def ignore_progress(progress: Progress) -> None:
    """For callers who do not watch."""
