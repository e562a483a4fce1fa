"""What a follow-up points at in the last answer: an item of its list, or whom it named."""

from __future__ import annotations

import re

from slipstream.answer.follow_up_en import ORDINAL_EN, content_words
from slipstream.answer.follow_up_zh import ORDINAL_ZH

_LISTED = re.compile(r"(?:^|\n|\s)(?:\(?(\d{1,2})[.)、]|[（(](\d{1,2})[)）])\s*([^\n]+?)(?=\s+\(?\d{1,2}[.)、]\s|\n|$)")
_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5} | {
    digit: value for value, digit in enumerate("一二三四五六七八九十", 1)
}
_WHICH = re.compile(
    r"\b(first|second|third|fourth|fifth|last)\b|第([一二三四五六七八九十]|\d{1,2})|(最后)", re.IGNORECASE
)
_LONGEST_ITEM = 120
_DID_ZH = re.compile(
    r"^(?:由|是|为|叫|的|人)+|(?:负责)?(?:撰写|编写|写|负责|担任|创建|创办|发明|设计|提出|开发|批准|签署|主持|领导|编辑|翻译|制作)?的?$"
)


def new_in(answer: str, topic: str) -> str:
    """What an answer says beyond the words of its question: who or what was asked for."""
    pairs = {topic[i : i + 2] for i in range(len(topic) - 1)}
    covered = {i + k for i in range(len(answer) - 1) if answer[i : i + 2] in pairs for k in (0, 1)}
    if not answer.isascii():
        return _DID_ZH.sub("", "".join(c for i, c in enumerate(answer) if i not in covered).strip(" 。，,."))
    known = {word.lower() for word in content_words(topic)}
    return " ".join(word for word in content_words(answer) if word.lower() not in known)


def listed_item(follow_up: str, answer: str) -> str:
    """The item of a numbered list in the last answer that the follow-up points at; empty when there is none."""
    which = _WHICH.search(follow_up)
    if which is None:
        return ""
    items = {int(found[1] or found[2]): found[3].strip() for found in _LISTED.finditer(answer)}
    name = (which[1] or which[2] or "").lower()
    number = max(items, default=0) if name in {"last", ""} else _ORDINALS.get(name) or int(name)
    return items.get(number, "")[:_LONGEST_ITEM]


def with_item(follow_up: str, item: str) -> str:
    """The follow-up with the item in place of what pointed at it."""
    named = ORDINAL_ZH.sub(lambda _: item, follow_up, count=1)
    named = named if named != follow_up else ORDINAL_EN.sub(lambda _: item, follow_up, count=1)
    return named if named != follow_up else f"{item} {follow_up}"
