"""Question → Query: normalise, and condense a follow-up with its history into a stand-alone query."""

from __future__ import annotations

import re
import unicodedata

from slipstream.call import Call
from slipstream.text.language import language_of
from slipstream.types import Language, Query, Question

_SPACE = re.compile(r"\s+")

_FOLLOW_UP_EN = re.compile(
    r"^(?:and|but|so|or|then|what about|how about|what if|why not|why|how so|how come|really|also|instead)\b"
    r"|\b(?:it|its|they|them|their|theirs|this|that|these|those|he|she|him|her|his|hers"
    r"|the same|the other|the former|the latter|the first one|the second one|the last one|another one|one|there)\b"
    r"|\b(?:as well|too|instead|else)\s*\??$",
    re.IGNORECASE,
)
_FOLLOW_UP_ZH = re.compile(
    r"^(?:那么?|那|而|还有|另外|然后|以及|如果|为什么|为何|怎么会|再|也)"
    r"|[它他她]们?|这个|那个|这些|那些|这种|那种|这里|那里|其|该|此|前者|后者|上述|刚才|上面"
    r"|呢[?？]?$"
)
_SHORT_WORDS_EN = 3
_SHORT_CHARACTERS_ZH = 6


class Rewriter:
    """Rules only: free, and they decide the common cases in both languages."""

    def __call__(self, question: Question, call: Call) -> Query:
        with call.stage("rewrite") as span:
            text = normalise(question.text)
            topic = _topic(question)
            language = language_of(text)
            if topic and is_follow_up(text, language):
                reason = "follow-up: the topic is carried over from the conversation"
                query = Query(f"{topic} {text}", language_of(text + topic), rewritten=True, reason=reason)
            else:
                reason = "stands alone" if question.history else "no history"
                query = Query(text, language, reason=reason)
            span.detail["reason"] = query.reason
            return query


def normalise(text: str) -> str:
    """NFKC, white space folded, control characters dropped."""
    text = unicodedata.normalize("NFKC", text)
    return "".join(c for c in _SPACE.sub(" ", text) if unicodedata.category(c) != "Cc").strip()


def is_follow_up(text: str, language: Language) -> bool:
    """True when the text cannot be understood alone: a pronoun, an ellipsis, or too short to name a topic."""
    if language == "zh":
        return bool(_FOLLOW_UP_ZH.search(text)) or len(text.rstrip("?？。!！")) <= _SHORT_CHARACTERS_ZH
    return bool(_FOLLOW_UP_EN.search(text)) or len(text.split()) <= _SHORT_WORDS_EN


def _topic(question: Question) -> str:
    """The latest earlier user turn that stands alone, with the follow-ups since left out."""
    asked = [normalise(turn.text) for turn in question.history if turn.role == "user"]
    for text in reversed(asked):
        if not is_follow_up(text, language_of(text)):
            return text
    return asked[0] if asked else ""
