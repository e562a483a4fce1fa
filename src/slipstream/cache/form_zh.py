"""Chinese question → Form."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

from slipstream.cache import lexicon_zh as lexicon
from slipstream.cache.form import Asks, Form, Role, Word
from slipstream.cache.opposites import axes, folded

_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_AXES = axes(lexicon.OPPOSITES)
_SYNONYMS = folded(lexicon.SYNONYMS)


def _longest_first(words: set[str]) -> str:
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))


_MARKERS = frozenset(lexicon.MARKERS.split("|"))
_FUNCTION = frozenset(lexicon.FUNCTION.split("|"))
_LISTED = frozenset({*_SYNONYMS, *_AXES} - _MARKERS)
_KNOWN = frozenset(word for word in _LISTED | _FUNCTION | _MARKERS if len(word) > 1)
_POLES = {
    word: _AXES.get(word) or tuple(pole for known in _AXES if known in word for pole in _AXES[known])
    for word in _LISTED
}
"""Opposites within longer words count too: 体长, 最大型."""
_QUANTIFIERS = frozenset({"一个", "一种", "一名", "一位", "一项"})
_LONGEST = max(map(len, _KNOWN))
_DIGITS = "〇零一二两三四五六七八九十百千万亿"
_UNIT = f"(?:{_longest_first(set(lexicon.UNITS.split('|')))})"
_TOKEN = re.compile(
    rf"(?P<title>[《「『“\"](?P<inner>[^》」』”\"]{{1,40}})[》」』”\"])"
    rf"|(?P<number>第?\d[\d,]*(?:\.\d+)*\s*{_UNIT}?|第[{_DIGITS}]+{_UNIT}?|[{_DIGITS}]{{2,}}{_UNIT}?|[二两三四五六七八九十]{_UNIT})"
    rf"|(?P<latin>[A-Za-zÀ-ÿ][\w.+#&'’-]*(?:\s[A-Z][\w.+#&'’-]*)*)"
    rf"|(?P<negation>{lexicon.NEGATION})"
    rf"|(?P<han>[{_HAN}])"
    rf"|(?P<break>[，。、；：？！,;:?!])",
    re.ASCII,
)
_WESTERN = {"零": 0, "〇": 0, "一": 1, "二": 2, "两": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9}
_POWERS = {"十": 10, "百": 100, "千": 1_000, "万": 10_000, "亿": 100_000_000}
_ASKS: tuple[tuple[Asks, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern)) for kind, pattern in lexicon.ASKS.items()
)
_AFFIRMATIVE_QUESTION = re.compile(r"是不是|有没有|能不能|会不会|可不可以|对不对")
_TURNED = re.compile(r"由|被|为.{0,8}所|的是|是[^的]*的[?？]?$|是(?:谁|什么|哪|几|多少)")
_IMPERATIVE = re.compile(r"^请?(?:列|举|说|写)出|是[?？]$")
_COPULA_WHO = re.compile(r"(?:是|由|被|叫|为)(?:谁|哪|什么|何)|(?:谁|哪[^的]{0,6}|什么[^的]{0,4})(?:是|的)")
_ENDS_WITH_WHO = re.compile(r"(?:谁|什么)[了过]?[？?]?$")
_STARTS_WITH_WHO = re.compile(r"^(?:请问)?(?:谁|哪|什么)")


@lru_cache(maxsize=4_096)
def parse_zh(text: str) -> Form:
    """The form of a Chinese question; single characters are words where the lexicon knows no longer one."""
    return _Reader(text).read()


class _Reader:
    """Walks over a question once, keeping the coverb that it is under."""

    __slots__ = ("_marker", "_names", "_negations", "_numbers", "_poles", "_text", "_words")

    def __init__(self, text: str) -> None:
        self._text = text
        self._words: list[Word] = []
        self._numbers: Counter[str] = Counter()
        self._names: set[str] = set()
        self._poles: dict[str, list[int]] = {}
        self._negations = 0
        self._marker = ""

    def read(self) -> Form:
        spaced = _AFFIRMATIVE_QUESTION.sub(lambda m: "\0" * len(m.group()), self._text)
        at = 0
        while match := _TOKEN.search(spaced, at):
            at = self._take(match, spaced)
        asks = _asks(self._text)
        return Form(
            "zh",
            tuple(self._words),
            Counter(word.text for word in self._words),
            self._numbers,
            frozenset(self._names),
            self._negations,
            {axis: tuple(ends) for axis, ends in self._poles.items()},
            asks,
            _role(self._text) if asks & {"who", "what"} else "unknown",
            turned=_TURNED.search(self._text) is not None,
        )

    def _take(self, match: re.Match[str], text: str) -> int:
        """Takes one token; returns where the next may begin."""
        kind, raw, (start, end) = match.lastgroup, match.group(), match.span()
        if kind == "han":
            raw = _longest(text, start)
            end = start + len(raw)
            self._take_han(raw, start, end)
        elif kind == "break":
            self._marker = ""
        elif kind == "title":
            self._take_name(match["inner"].casefold(), start, end)
        elif kind == "latin":
            self._take_name(" ".join(raw.casefold().split()), start, end)
        elif kind == "number":
            number = _number(raw)
            self._numbers[number] += 1
            self._words.append(Word(f"#{number}", start, end, self._marker, floats=True))
        else:
            self._negations += 1
            self._marker = ""
        return end

    def _take_name(self, name: str, start: int, end: int) -> None:
        self._names.add(name)
        self._words.append(Word(name, start, end, self._marker, is_name=True))

    def _take_han(self, raw: str, start: int, end: int) -> None:
        for axis, pole in _POLES.get(raw, ()):
            ends = self._poles.setdefault(axis, [])
            if pole not in ends:
                ends.append(pole)
        if raw in _MARKERS:
            self._marker = raw
        elif raw in _SYNONYMS or raw not in _FUNCTION or (raw in _AXES and len(raw) > 1):
            self._words.append(Word(_SYNONYMS.get(raw, raw), start, end, self._marker))
        elif len(raw) > 1 and raw not in _QUANTIFIERS:
            self._marker = ""


def _longest(text: str, at: int) -> str:
    """The longest word of the lexicon that begins here, or the character alone."""
    for size in range(_LONGEST, 1, -1):
        if text[at : at + size] in _KNOWN:
            return text[at : at + size]
    return text[at]


def _number(raw: str) -> str:
    match = re.match(rf"第?([\d,.]+|[{_DIGITS}]+)\s*(.*)", raw)
    if match is None:
        return raw
    digits, unit = match[1], match[2].replace("号", "日").replace("％", "%")
    if digits[0].isdigit():
        return digits.replace(",", "").rstrip(".") + unit
    return str(_value(digits)) + unit


def _value(digits: str) -> int:
    """一百二十 → 120; 一九九七 → 1997."""
    if not any(digit in _POWERS for digit in digits):
        return int("".join(str(_WESTERN[digit]) for digit in digits))
    total = section = current = 0
    for digit in digits:
        if digit in _WESTERN:
            current = _WESTERN[digit]
        elif (power := _POWERS[digit]) < _POWERS["万"]:
            section += (current or 1) * power
            current = 0
        else:
            total = (total + section + current or 1) * power
            section = current = 0
    return total + section + current


def _asks(text: str) -> frozenset[Asks]:
    for kind, pattern in _ASKS:
        if pattern.search(text):
            if kind in {"where", "when", "who", "how"} and re.search("什么|哪", text):
                return frozenset({kind, "what"}) if kind in {"who", "how"} else frozenset({kind})
            return frozenset({"how", "what"}) if kind == "how" else frozenset({kind})
    return frozenset({"what"}) if _IMPERATIVE.search(text) else frozenset({"none"})


def _role(text: str) -> Role:
    """Only the plain cases: 谁打败了法国 asks for the agent, 法国打败了谁 for the patient."""
    if _COPULA_WHO.search(text):
        return "unknown"
    if _STARTS_WITH_WHO.search(text):
        return "agent"
    return "patient" if _ENDS_WITH_WHO.search(text) else "unknown"
