"""One matter looked at: what was found, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

State: TypeAlias = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    state: State
    sentence: str
    advice: str = ""
    """What to do; empty when there is nothing to do."""
