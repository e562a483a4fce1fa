"""The form of a question: the parts that must agree before an answer to one may serve another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from slipstream.types import Language

Asks: TypeAlias = Literal["who", "when", "where", "why", "how", "how_many", "what", "yes_no", "none"]
"""What kind of thing a question asks for."""
Role: TypeAlias = Literal["agent", "patient", "unknown"]
"""What the thing asked for does in the sentence: "who beat France" asks for an agent."""


class Word(NamedTuple):
    """A word of a question that carries meaning; a tuple, since a question makes a dozen in microseconds."""

    text: str
    """Canonical: lower case, stemmed, synonyms folded."""
    start: int
    end: int
    """Character span in the question."""
    marker: str = ""
    """The preposition, or in Chinese the coverb, that it stands under; empty for a bare argument."""
    is_name: bool = False
    floats: bool = False
    """May stand anywhere without changing the meaning, as dates do."""
    argues: bool = False
    """Is, or belongs to, an argument of the sentence: a name, or a noun with an article."""
    chunk: int = 0
    """Number of the phrase it belongs to; `X of Y` and `Y's X` are one."""


@dataclass(frozen=True, slots=True)
class Form:
    language: Language
    words: tuple[Word, ...]
    counts: Mapping[str, int]
    """How often each canonical word occurs."""
    numbers: Counter[str]
    """Numbers with their units, dates, ordinals, versions; normalised."""
    names: frozenset[str]
    """Named entities and identifiers, case folded."""
    negations: int
    poles: Mapping[str, tuple[int, ...]]
    """Axis of opposites → which of its ends (+1, -1) are named, in order of first mention."""
    asks: frozenset[Asks]
    """What the question may be asking for; several when its words leave it open."""
    role: Role
    turned: bool = False
    """Passive or cleft, in Chinese: the agent may stand behind what is done."""
