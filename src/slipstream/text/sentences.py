"""Where the sentences of a Chinese or English text begin and end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TypeAlias

Span: TypeAlias = tuple[int, int]

LONGEST = 400
"""Characters beyond which a sentence is cut at a comma, a semicolon, a blank, or anywhere."""

_CLOSERS = r"[\"'”’」』）)】》〉\]*_`]*+"
_TERMINATOR = re.compile(
    rf"(?P<wide>[。！？；｡]++{_CLOSERS})"  # Chinese: ends wherever it stands
    rf"|(?P<dots>(?:…+|\.{{3,}}){_CLOSERS})"
    rf"|(?P<latin>(?<![.!?])[.!?]++{_CLOSERS})(?=\s|$|[\u3400-\u9fff])"
)
_PAUSE = re.compile(r"[;；，、]|[,:：](?=\s)")
_BLANK = re.compile(r"\s")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_FENCE = re.compile(r"[ \t]*(?:```|~~~)")
_LIST_MARK = re.compile(r"[ \t>]*(?:(?:[-*+•·◦▪‣–]|\(?\d{1,3}[.)、]|[①-⑳]|[（(][一二三四五六七八九十]+[）)])[ \t]*)+")
_OWN_LINE = re.compile(r"[ \t]*(?:#{1,6}[ \t]|\||>|///|(?:-{3,}|={3,}|\*{3,})[ \t]*$)|\t| {4}")
_WHOLE_LINE = re.compile(r"[ \t]*(?:#{1,6}[ \t]|\|)")
_LIST_START = re.compile(r"[ \t]*(?:[-*+•·◦▪‣–][ \t]|\(?\d{1,3}[.)、]|[①-⑳]|[（(][一二三四五六七八九十]+[）)])")
_CONTINUES = re.compile(r"[ \t]*[a-zà-öø-ÿ,;:)\]，；：、。）】》”]")
_WIDE = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff\uff00-\uff60]")
_WORDY = re.compile(r"\w")
_ABBREVIATION = re.compile(
    r"(?:^|[^\w.])(?:"
    r"(?P<name>Inc|Ltd|Corp|Co|Jr|Sr|etc|al|Ph\.D|a\.m|p\.m)"
    r"|(?P<number>No|Nos|Fig|Figs|Vol|Eq|Sec|Ch|Art|pp?|ver|v|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)"
    r"|[A-Za-z]|(?:[A-Za-z]\.)+[A-Za-z]|Dr|Mr|Mrs|Ms|Prof|St|Gen|Col|Lt|Sgt|Rev|Hon|Gov|Capt|vs|cf|viz|approx"
    r"|ca|resp|incl"
    r")$",
    re.IGNORECASE,
)
_FULL_LINE = 50
"""Columns from which on a line is taken to be wrapped by its margin rather than ended by its author."""


@lru_cache(maxsize=4_096)
def sentences(text: str) -> tuple[Span, ...]:
    """Half-open character spans of the sentences, in order, trimmed, never overlapping.

    Every word of the text lies in one of them; marks that stand alone (rules, fences, brackets) are
    left out unless there is nothing else. A heading, list item, table row or line of code is a
    sentence of its own. Linear in the length of the text; empty only for blank text. Few passages make up most of
    what is asked for, so the latest are remembered.
    """
    parts = (part for start, end, whole in _units(text) for part in (_trimmed if whole else _split)(text, start, end))
    spans = [piece for start, end in parts for piece in _shorten(text, start, end)]
    wordy = [span for span in spans if _WORDY.search(text, *span)]
    return tuple(wordy or spans[:1])


def _units(text: str) -> Iterator[tuple[int, int, bool]]:
    """Runs of lines that read as one: a paragraph, or a line that stands for itself (True: never split)."""
    start: int | None = None
    fenced = False
    for match in _LINE.finditer(text):
        line = match.group()
        begin, end = match.span()
        fence = _FENCE.match(line) is not None
        if start is not None:
            if not fence and _joins(text, start, begin, line):
                continue
            yield start, begin, False
        start = begin
        fenced ^= fence
        if fence or fenced or _OWN_LINE.match(line) or not line.strip():
            yield begin, end, fence or fenced or _WHOLE_LINE.match(line) is not None
            start = None
    if start is not None:
        yield start, len(text), False


def _joins(text: str, start: int, begin: int, line: str) -> bool:
    """Whether a line goes on with the paragraph that began at `start`."""
    if not line.strip() or _OWN_LINE.match(line) or _LIST_START.match(line):
        return False
    if _CONTINUES.match(line):
        return True
    previous = text[max(text.rfind("\n", start, begin - 1) + 1, start) : begin].strip()
    return len(previous) + len(_WIDE.findall(previous)) >= _FULL_LINE


def _split(text: str, start: int, end: int) -> Iterator[Span]:
    """Sentences of one unit, trimmed."""
    mark = _LIST_MARK.match(text, start, end)
    at, scan = start, mark.end() if mark else start
    for match in _TERMINATOR.finditer(text, scan, end):
        if _ends(text, match, at, end):
            yield from _trimmed(text, at, match.end())
            at = match.end()
    yield from _trimmed(text, at, end)


def _ends(text: str, match: re.Match[str], at: int, end: int) -> bool:
    if match["wide"]:
        return True
    following = _next_visible(text, match.end(), end)
    if following.islower():
        return False
    if match["dots"]:
        return True
    before = text[max(at, match.start() - 12) : match.start()]
    short = _ABBREVIATION.search(before) if match["latin"].startswith(".") and len(match["latin"]) == 1 else None
    if short is None:
        return True
    if short["number"]:
        return not following.isdigit()
    return bool(short["name"])


def _next_visible(text: str, at: int, end: int) -> str:
    while at < end and (text[at].isspace() or text[at] in "\"'“‘(（*_`["):
        at += 1
    return text[at] if at < end else ""


def _shorten(text: str, start: int, end: int) -> Iterator[Span]:
    """Cuts an over-long sentence at its last comma or blank before the limit, or else at the limit."""
    while end - start > LONGEST:
        cut = _last_cut(text, start + LONGEST // 2, start + LONGEST)
        yield from _trimmed(text, start, cut)
        start = cut
    yield from _trimmed(text, start, end)


def _last_cut(text: str, low: int, high: int) -> int:
    for pattern in (_PAUSE, _BLANK):
        cuts = [match.end() for match in pattern.finditer(text, low, high)]
        if cuts:
            return cuts[-1]
    return high


def _trimmed(text: str, start: int, end: int) -> Iterator[Span]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if start < end:
        yield start, end
