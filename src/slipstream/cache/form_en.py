"""English question → Form."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

from slipstream.cache import lexicon_en as lexicon
from slipstream.cache.form import Asks, Form, Role, Word
from slipstream.cache.lexicon_en import words as listed
from slipstream.cache.opposites import axes, folded
from slipstream.text.terms import stem as stem_of

stem = lru_cache(maxsize=65_536)(stem_of)

_TOKEN = re.compile(
    "(?P<number>[$€£]?\\d[\\d,]*(?:\\.\\d+)*(?:s\\b|st\\b|nd\\b|rd\\b|th\\b|%)?)"
    "|(?P<word>[^\\W\\d_]+(?:[-'’.&/+_]{1,2}\\w+)*\\+*)|(?P<mixed>\\w+(?:[-./]\\w+)*)|(?P<break>[,;:()?!])",
    re.IGNORECASE,
)
_PHRASE = re.compile(
    rf"(?:{'|'.join(sorted(map(re.escape, lexicon.PHRASES), key=len, reverse=True))})\b", re.IGNORECASE
)
_PHRASE_STARTS = frozenset(phrase.split()[0] for phrase in lexicon.PHRASES)
_BE = listed("is are was were be been being")
_DO = listed("do did does")
_AUX = _BE | _DO | listed("can could will would shall should may might must have has had")
_ARTICLES = listed("a an the its their his her this that these those our your my each every all")
_JOINS = frozenset({"of"})
_WH = listed("what which who whom whose")
_PARTICIPLE = re.compile(r"\w+(?:ed|en|own|ung|uck|uilt|old|ade|ought|aught|orn|ept|eft|ent|ost|un|on|et|ut|id)")
_UNITS = listed(
    "km kilometer kilometre mile meter metre foot feet inch cm mm kg gram pound ton tonne celsius "
    "fahrenheit kelvin percent dollar euro yen yuan second minute hour week acre hectare liter litre "
    "gallon volt watt mph kph gb mb tb"
)
_UNIT_STEMS = frozenset(map(stem, _UNITS))
_AXES = axes(lexicon.OPPOSITES, stem)
_SYNONYMS = folded(lexicon.SYNONYMS, stem)
_TYPED: dict[str, Asks] = {stem(word): kind for kind, words in lexicon.ASKS.items() for word in words.split()}
_LOOK_AHEAD = 4
_SEPARATOR = re.compile(r"[-/]")
_DATES_WITH_CAPITAL = frozenset({"may", "march", "mar", "fall"})
"""Words that are months only with one."""
_BEFORE_WH = lexicon.MARKERS | {"and", "0"}
_HOW_MANY = listed("many much long large big old far often tall high deep wide fast few heavy")


@lru_cache(maxsize=4_096)
def parse_en(text: str) -> Form:
    """The form of an English question; some 10 µs a word, nothing when it was parsed before."""
    return _Reader(text).read()


class _Reader:
    """Walks over a question once, keeping the preposition and the phrase that it is in."""

    __slots__ = ("_chunk", "_determined", "_first", "_joins", "_marker", "_names", "_negations", "_numbers", "_poles",
                 "_text", "_tokens", "_words")  # fmt: skip

    def __init__(self, text: str) -> None:
        self._text = text
        self._words: list[Word] = []
        self._tokens: list[str] = []
        self._numbers: Counter[str] = Counter()
        self._names: set[str] = set()
        self._poles: dict[str, list[int]] = {}
        self._negations = 0
        self._marker = ""
        self._chunk = 0
        self._determined = self._joins = False
        self._first = True

    def read(self) -> Form:
        at = 0
        while match := _TOKEN.search(self._text, at):
            match = self._phrase(match) or match
            self._take(match)
            at = match.end()
        asks = _asks(self._tokens, "?" in self._text)
        return Form(
            "en",
            tuple(self._words),
            Counter(word.text for word in self._words),
            self._numbers,
            frozenset(self._names),
            self._negations,
            {axis: tuple(ends) for axis, ends in self._poles.items()},
            asks,
            _role(self._tokens) if asks & {"who", "what"} else "unknown",
        )

    def _phrase(self, match: re.Match[str]) -> re.Match[str] | None:
        """Several words that count as one, beginning where `match` does."""
        begins = match.lastgroup == "word" and match.group().lower() in _PHRASE_STARTS
        return _PHRASE.match(self._text, match.start()) if begins else None

    def _take(self, match: re.Match[str]) -> None:
        raw, (start, end) = match.group(), match.span()
        if match.lastgroup == "break":
            self._leave_phrase()
            return
        was_first, self._first = self._first, False
        if match.lastgroup == "number":
            self._tokens.append("0")
            self._take_number(_number(raw), start, end, floats=True)
            return
        low = _bare(raw)
        if match.lastgroup is None:
            self._take_phrase(low, start, end)
            return
        self._tokens.append(low)
        capital = raw[0].isupper()
        if low in lexicon.NEGATIONS:
            self._negations += 1
            self._marker = ""
        elif low in lexicon.DATES and (capital or low not in _DATES_WITH_CAPITAL):
            self._take_date(f"date:{lexicon.DATES[low]}", start, end)
        elif low in lexicon.NUMBERS and (was_first or not capital):
            self._pole(low)
            self._take_number(str(lexicon.NUMBERS[low]), start, end, floats=False)
        elif low in lexicon.FUNCTION and (was_first or not raw.isupper() or raw == "I"):
            self._take_function(low)
        else:
            self._take_content(low, start, match.lastgroup == "mixed" or (capital and not was_first))

    def _take_number(self, number: str, start: int, end: int, *, floats: bool) -> None:
        self._numbers[number] += 1
        self._words.append(Word(f"#{number}", start, end, self._marker, floats=floats))

    def _take_date(self, date: str, start: int, end: int) -> None:
        self._numbers[date] += 1
        self._words.append(Word(date, start, end, self._marker, floats=True))

    def _take_phrase(self, low: str, start: int, end: int) -> None:
        self._tokens += low.split()
        canonical = lexicon.PHRASES[low]
        if canonical[0] != "?":
            self._pole(canonical)
            self._words.append(Word(_SYNONYMS.get(canonical, canonical), start, end, self._marker))
        self._marker = ""

    def _take_function(self, low: str) -> None:
        self._pole(low)
        joined, self._joins = self._joins, low in _JOINS
        if low in _ARTICLES:
            self._chunk += not joined
            self._determined = True
        elif low in _JOINS:
            self._marker = low
        else:
            self._leave_phrase(low if low in lexicon.MARKERS else "")

    def _take_content(self, low: str, start: int, is_name: bool) -> None:
        self._joins = False
        is_name = is_name or not low.isascii()
        if (stemmed := stem(low)) in _UNIT_STEMS:
            self._numbers["unit:" + stemmed] += 1
        if is_name or any(c.isdigit() for c in low):
            self._names.update(stem(part) for part in _SEPARATOR.split(low) if part)
        argues = is_name or self._determined
        for part, offset in _split(low):
            self._pole(part)
            text = stem(part) if is_name else _SYNONYMS.get(stem(part), stem(part))
            begin = start + offset
            self._words.append(
                Word(text, begin, begin + len(part), self._marker, is_name, argues=argues, chunk=self._chunk)
            )

    def _leave_phrase(self, marker: str = "") -> None:
        self._marker, self._chunk, self._determined = marker, self._chunk + 1, False

    def _pole(self, word: str) -> None:
        for axis, end in _AXES.get(word) or _AXES.get(stem(word)) or ():
            ends = self._poles.setdefault(axis, [])
            if end not in ends:
                ends.append(end)


def _bare(raw: str) -> str:
    low = raw.lower().replace("’", "'")
    return low.removesuffix("'s").rstrip("'.")


def _number(raw: str) -> str:
    number = raw.lower().replace(",", "").lstrip("$€£")
    return number[:-2] if number[-2:] in {"st", "nd", "rd", "th"} else number


def _split(low: str) -> list[tuple[str, int]]:
    """Hyphenated words part by part."""
    if "-" not in low and "/" not in low:
        return [(low, 0)]
    parts, at = [], 0
    for part in _SEPARATOR.split(low):
        if part and part not in lexicon.FUNCTION:
            parts.append((part, at))
        at += len(part) + 1
    return parts or [(low, 0)]


def _asks(words: list[str], is_question: bool) -> frozenset[Asks]:
    for at, word in enumerate(words):
        following = words[at + 1] if at + 1 < len(words) else ""
        if word in {"who", "whom", "whose"} and (at == 0 or words[at - 1] in _BEFORE_WH or not following):
            return frozenset({"who"})
        if word in {"when", "where"} and (following in _AUX or not following):
            return frozenset({"when"}) if word == "when" else frozenset({"where"})
        if word == "why":
            return frozenset({"why", "what"})
        if word == "how":
            return frozenset({"how_many"}) if following in _HOW_MANY else frozenset({"how", "what"})
        if word in {"what", "which"}:
            return _typed(words, at)
    if "who" in words:
        return frozenset({"who"})
    if words and (words[0] in _AUX or is_question):
        return frozenset({"yes_no"})
    return frozenset({"what"}) if words and words[0] in {"name", "list", "give", "tell"} else frozenset({"none"})


def _typed(words: list[str], at: int) -> frozenset[Asks]:
    """What a noun behind `what` or `which` asks for, beside a thing."""
    kinds: set[Asks] = {"what"}
    before = words[at - 1] if at else ""
    for near in words[at + 1 : at + 1 + _LOOK_AHEAD + (2 if words[at] == "what" else 0)]:
        if near in _AUX and words[at] == "which":
            break
        kind = _TYPED.get(stem(near))
        if kind is not None:
            kinds.add(kind)
        elif near in {"name", "called"}:
            kinds.add("who")
    is_time = "when" in kinds and before in {"in", "during", "on", "since", "by", "from", ""} and at < 2
    return frozenset({"when"}) if is_time else frozenset(kinds)


def _role(words: list[str]) -> Role:
    at = next((i for i, word in enumerate(words) if word in _WH), None)
    if at is None:
        return "unknown"
    before = words[at - 1] if at else ""
    if before == "by":
        return "agent"
    if before in lexicon.MARKERS:
        return "unknown"
    rest = words[at + 1 :]
    verbs = [(i, word) for i, word in enumerate(rest) if word in _AUX]
    if not verbs:
        return "agent"
    index, verb = verbs[0]
    if verb in _DO:
        return "patient"
    if verb in _BE:
        after = [word for word in rest[index + 1 :] if word not in _AUX]
        if "who" in after or "that" in after or "which" in after:
            return "unknown"
        if any(_PARTICIPLE.fullmatch(word) for word in after[:4]):
            if rest and rest[-1] == "by":
                return "agent"
            return "patient" if "by" in after or index <= 2 else "unknown"
    return "unknown"
