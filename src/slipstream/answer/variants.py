"""Query → other wordings of it, by rules: its parts, and its bare subject without the words of asking."""

from __future__ import annotations

import re

from slipstream.types import Language, Query

MOST = 4
_SHORTEST = 2
"""Words of a part in English, characters in Chinese: less says nothing alone."""
_ASKING_EN = re.compile(
    r"^(?:(?:please|could you|can you|would you|tell me|explain(?: to me)?"
    r"|i(?: would|'d) like to know|do you know)[ ,]+)*"
    r"(?:(?:what|which|who|whom|whose|where|when|why|how)(?: (?:many|much|long|often|far|old|about|come))?\b ?)?"
    r"(?:(?:is|are|was|were|does|do|did|can|could|should|will|would|has|have|had|must|may)\b ?)?"
    r"(?:(?:i|we|you|one|there)\b ?)?(?:(?:a|an|the|my|our|your)\b ?)?",
    re.IGNORECASE,
)
_ASKING_ZH = re.compile(
    r"^(?:请问|请告诉我|告诉我|我想知道|麻烦问一下|想问一下|能不能|可不可以|是否可以|可以|能否)+"
    r"|(?:是什么时候|什么时候|为什么|为何|怎么样|怎么办|怎么|怎样|如何|多少|多久|是什么|什么是|什么|哪些|哪个|哪里|哪儿|谁)"
    r"|(?:吗|呢|吧|啊)(?=$|[，。！？])"
)
_PARTS_EN = re.compile(
    r"[?;.!]\s+|,?\s+and\s+(?:also\s+)?(?=(?:what|which|who|where|when|why|how|is|are|does|do|did|can)\b)",
    re.IGNORECASE,
)
_PARTS_ZH = re.compile(r"[？；。！?]|[，,]?(?:以及|并且|同时|还有)|和(?=(?:如何|怎么|什么|哪|为什么|多少))")
_COMMA_ZH = re.compile(r"[，,]")
_END = re.compile(r"[\s?？。.!！,，;；]+$")


def other_wordings(query: Query) -> tuple[str, ...]:
    """At most MOST distinct ones, none of them the query itself; often none."""
    language = query.language
    parts = [part for part in _parts(query.text, language) if _says_something(part, language)]
    parts = parts if len(parts) > 1 else []
    subjects = [bare_subject(text, language) for text in (parts or [query.text])]
    found = dict.fromkeys(text for text in (*parts, *subjects) if _says_something(text, language))
    found.pop(_END.sub("", query.text), None)
    found.pop(query.text, None)
    return tuple(found)[:MOST]


def _parts(text: str, language: Language) -> list[str]:
    if language == "zh":
        parts = [piece for part in _PARTS_ZH.split(text) for piece in _questions_zh(part)]
    else:
        parts = _PARTS_EN.split(text)
    return [_END.sub("", part).strip() for part in parts if part]


def _questions_zh(part: str) -> list[str]:
    """A comma parts two questions only when there is one on either side of it."""
    pieces = _COMMA_ZH.split(part)
    return pieces if all(_ASKING_ZH.search(piece) for piece in pieces) else [part]


def bare_subject(text: str, language: Language) -> str:
    """A question without the words of asking."""
    bare = _ASKING_ZH.sub("", text) if language == "zh" else _ASKING_EN.sub("", text, count=1)
    return _END.sub("", bare).strip("，, ")


def _says_something(text: str, language: Language) -> bool:
    return (len(text) if language == "zh" else len(text.split())) >= _SHORTEST
