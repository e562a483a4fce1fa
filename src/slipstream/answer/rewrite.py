"""Question → Query: normalise, and make a follow-up stand alone with what its history names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from slipstream.answer.carry import carry
from slipstream.answer.dependence import Dependence
from slipstream.answer.follow_up import dependence
from slipstream.answer.pointed import listed_item, new_in, with_item
from slipstream.call import Call
from slipstream.text.language import language_of
from slipstream.types import Language, Query, Question, Turn

_SPACE = re.compile(r"\s+")
_LATEST_TURNS = 12
"""A topic that was last named longer ago is none any more."""
_READ_CHARACTERS = 1_000
"""Of each earlier turn: who pastes pages has asked in the beginning, or says it again."""
_SENTENCE = re.compile(r"^[^。！？\n]{1,100}?(?:[。！？\n]|[.!?](?=\s|$)|$)")
_MARKER = re.compile(r"\s?[\[【]\d+[\]】]")


class Rewriter:
    """Rules only: free, and they decide the common cases in both languages; where they cannot, the query says so."""

    def __call__(self, question: Question, call: Call) -> Query:
        with call.stage("rewrite") as span:
            text = normalise(question.text)
            query = _alone(text, "no history") if not question.history else _in_conversation(text, question.history)
            span.detail["reason"] = query.reason
            return query


def normalise(text: str) -> str:
    """NFKC, white space folded, control characters dropped."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    if text.isprintable():  # then white space is blanks, and there are no control characters
        return " ".join(text.split(" ")).strip() if "  " not in text else _SPACE.sub(" ", text).strip()
    return "".join(c for c in _SPACE.sub(" ", text) if unicodedata.category(c) != "Cc").strip()


def is_follow_up(text: str, language: Language) -> bool:
    """True when the text cannot be understood alone."""
    return bool(dependence(text, language))


def _alone(text: str, reason: str, certain: bool = True) -> Query:
    return Query(text, language_of(text), reason=reason, certain=certain)


def _in_conversation(text: str, history: Sequence[Turn]) -> Query:
    tie = dependence(text, language_of(text))
    if not tie:
        return _alone(text, "stands alone")
    topic = _topic(history[-_LATEST_TURNS:])
    if not topic:
        return _alone(text, "a follow-up to nothing that is left of the conversation", certain=False)
    return _carried(topic, text, tie, history)


def _carried(topic: str, text: str, tie: Dependence, history: Sequence[Turn]) -> Query:
    answer = _last_answer(history)
    if tie.cue == "ordinal" and (item := listed_item(text, answer)):
        return _rewritten(with_item(text, item), text, f'points at "{item}"', tie)
    if tie.cue == "person" and (said := _SENTENCE.match(answer)) and (name := new_in(said[0], topic)):
        return _rewritten(f"{name} {text}", text, "about who was named in the answer", tie)
    carried = carry(topic, text, language_of(text))
    return _rewritten(carried.text, text, carried.how, tie)


def _rewritten(query: str, text: str, how: str, tie: Dependence) -> Query:
    language = language_of(text)
    spoken = language if language != "other" else language_of(query)
    return Query(query, spoken, rewritten=True, reason=f"follow-up ({tie.cue}): {how}", certain=tie.certain)


def _topic(history: Sequence[Turn]) -> str:
    """The latest earlier question that stands alone, with the values that later ones put into it."""
    asked = [normalise(turn.text[:_READ_CHARACTERS]) for turn in history if turn.role == "user"]
    ties = [dependence(text, language_of(text)) for text in asked]
    first = next((i for i in reversed(range(len(asked))) if not ties[i]), 0)
    topic = asked[first] if asked else ""
    for text in asked[first + 1 :]:
        carried = carry(topic, text, language_of(text))
        topic = carried.text if carried.replaced else topic
    return topic


def _last_answer(history: Sequence[Turn]) -> str:
    said = next((turn.text for turn in reversed(history) if turn.role == "assistant"), "")
    return _MARKER.sub("", unicodedata.normalize("NFKC", said[:_READ_CHARACTERS])).strip()
