"""A follow-up made to stand alone: a noun, and what makes it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Carried:
    text: str
    how: str
    """What was done, for the trace."""
    replaced: bool
    """Whether it is the topic itself with another value: then it is the topic of what follows."""
