"""Whether a question can be understood without its history: pronouns, ellipsis and bare requests, in both languages."""

from __future__ import annotations

from slipstream.answer.dependence import STANDS_ALONE, Dependence
from slipstream.answer.follow_up_en import english
from slipstream.answer.follow_up_zh import chinese
from slipstream.types import Language

_LONGEST = 300
"""Characters."""


def dependence(text: str, language: Language) -> Dependence:
    """`text` is normalised. A change of subject must not drag the old one along, so a cue alone is not enough where
    the question names enough of its own; a long one always does."""
    if len(text) > _LONGEST:
        return STANDS_ALONE
    return chinese(text) if language == "zh" else english(text)
