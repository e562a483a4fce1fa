"""What ties a question to its history: a noun, found by slipstream.answer.follow_up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Cue: TypeAlias = Literal["", "pronoun", "person", "ordinal", "ellipsis", "request", "short", "bridging"]


@dataclass(frozen=True, slots=True)
class Dependence:
    """What ties a question to its history."""

    cue: Cue = ""
    """Empty: nothing does."""
    certain: bool = True

    def __bool__(self) -> bool:
        return self.cue != ""


STANDS_ALONE = Dependence()
