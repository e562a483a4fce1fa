"""What the server and its engine process say to each other: orders one way, reports the other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from slipstream.types import FinishReason, Sampling


@dataclass(frozen=True, slots=True)
class Open:
    """First order: load the model and get ready."""

    directory: Path
    kv_cache_gib: float
    max_batch_tokens: int
    max_sequences: int
    threads: int


@dataclass(frozen=True, slots=True)
class Submit:
    id: int
    ids: NDArray[np.int64]
    """(n,) prompt, template included."""
    sampling: Sampling
    """With a seed."""
    tenant: str
    """Empty for what the server computes for everybody."""


@dataclass(frozen=True, slots=True)
class Cancel:
    id: int


@dataclass(frozen=True, slots=True)
class Close:
    """Last order: cancel, drain, exit."""


Order: TypeAlias = Open | Submit | Cancel | Close


@dataclass(frozen=True, slots=True)
class Opened:
    kv_blocks: int
    block_tokens: int


@dataclass(frozen=True, slots=True)
class OpenFailed:
    kind: Literal["model", "settings"]
    message: str


@dataclass(frozen=True, slots=True)
class Admitted:
    """The request entered the pipeline."""

    id: int
    cached_tokens: int


@dataclass(frozen=True, slots=True)
class Piece:
    """Text that has become certain, or the end."""

    id: int
    text: str
    count: int
    finish_reason: FinishReason | None
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The engine gave the request up: out of memory, or refused by the pipeline."""

    id: int
    memory: bool
    message: str


@dataclass(frozen=True, slots=True)
class Step:
    """What one step brought, and the state it left."""

    items: tuple[Admitted | Piece | Failed, ...]
    number: int
    """Steps taken so far."""
    running: int
    kv_used_fraction: float


Report: TypeAlias = Opened | OpenFailed | Step
