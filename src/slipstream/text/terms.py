"""Text → search terms for BM25, Chinese and English alike: words, identifiers whole and in parts, bigrams.

Words are lower-cased, stripped of accents and lightly stemmed. An identifier (`E1234-5`, `max_size`,
`getUser`, `numpy.float32`, `2.3.5`, `C++`) is a term as it stands, so that it ranks first when asked
for exactly, and so are its parts. Runs of Chinese, Japanese or Korean characters become overlapping
bigrams, which need no dictionary and therefore miss no name.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

_CJK = r"\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
_WORD = rf"[^\W_{_CJK}]+"
_CHUNK = re.compile(rf"[{_CJK}]+|{_WORD}(?:[._\-/:@+]{{1,2}}{_WORD})*(?:\+\+|#)?")
_IS_CJK = re.compile(f"[{_CJK}]")
_RUN = re.compile(r"\d+|[^\W\d_]+")
_CAMEL = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[^\W_A-Za-z\d]+")
_PIECE = re.compile(r"[^\W_]+")
_IDENTIFIER = re.compile(r"(?=.*\d)(?=.*\D).+|.*[_./:@+#].*|.*[a-z][A-Z].*")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_ACCENTS = re.compile("[\u0300-\u036f]")
_VOWEL = re.compile("[aeiouy]")

_STOP_WORDS = (
    "a about an and any are as at be been but by can could did do does for from had has have he her his how i if in "
    "into is it its many may me much my name no not of on or our s she should so such t tell than that the their them "
    "then there these they this to us was we were what when where which who whom whose why will with would you your "
    "的 了 是 在 和 与 及 吗 呢 吧 啊 也 都 就 被 把 对 为 有 我 你 他 她 它 这 那"
)


def terms(text: str) -> list[str]:
    """The terms of a stored text, with repetitions, for counting.

    Single characters of Chinese, Japanese and Korean runs are terms too, so that a query of one character finds them.
    """
    found: list[str] = []
    for chunk in _chunks(text):
        if _IS_CJK.match(chunk):
            found += chunk
            found += _bigrams(chunk)
        else:
            found += _words(chunk)
    return found


@dataclass(frozen=True, slots=True)
class QueryTerm:
    text: str
    exact: bool = False
    """Whether it is a whole identifier: letters and digits together, or parts joined as in code."""


def query_terms(text: str) -> list[QueryTerm]:
    """The distinct terms of a query, in order, without stop words unless it has nothing else.

    A run of one character is that character; a longer run only its bigrams, which say more and cost less.
    """
    found: dict[str, QueryTerm] = {}
    for chunk in _chunks(text):
        if _IS_CJK.match(chunk):
            found |= {term: QueryTerm(term) for term in _bigrams(chunk) or [chunk]}
        else:
            whole, *parts = _words(chunk)
            found[whole] = QueryTerm(whole, _IDENTIFIER.fullmatch(chunk) is not None)
            found |= {part: QueryTerm(part) for part in parts if part not in found}
    return [term for term in found.values() if term.text not in _STOP] or list(found.values())


def stem(word: str) -> str:
    """A light English stem: plural, -ing, -ed, -ly, final e and y. Other words come back as they are.

    Sources: Harman, "How effective is suffixing?", JASIS 42(1), 1991 (plurals); Porter, "An algorithm for
    suffix stripping", Program 14(3), 1980, step 1 (the rest, simplified).
    """
    if len(word) < 4 or not (word.isascii() and word.isalpha()):
        return word
    word = _singular(word)
    for suffix in ("ingly", "edly", "ing", "ed", "ly"):
        root = word.removesuffix(suffix)
        if root != word and len(root) > 2 and _VOWEL.search(root):
            word = root[:-1] if len(root) > 3 and root[-1] == root[-2] and root[-1] not in "lsz" else root
            break
    if len(word) > 3 and word.endswith("e"):
        word = word[:-1]
    return word[:-1] + "i" if len(word) > 3 and word.endswith("y") else word


def _singular(word: str) -> str:
    if word.endswith("ies") and not word.endswith(("eies", "aies")):
        return word[:-3] + "y"
    if word.endswith("es") and not word.endswith(("aes", "ees", "oes")):
        return word[:-1]
    if word.endswith("s") and not word.endswith(("us", "ss")):
        return word[:-1]
    return word


def _chunks(text: str) -> Iterator[str]:
    plain = text
    if not text.isascii():
        plain = unicodedata.normalize("NFKC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))
    return (match.group() for match in _CHUNK.finditer(_THOUSANDS.sub("", plain)))


def _bigrams(run: str) -> list[str]:
    return [run[i : i + 2] for i in range(len(run) - 1)]


@lru_cache(maxsize=16_384)
def _words(chunk: str) -> tuple[str, ...]:
    """Few words make up most of any text."""
    whole = chunk.lower()
    parts = [part.lower() for piece in _PIECE.findall(chunk) for part in _split(piece)]
    informative = [stem(part) for part in parts if part != whole and (len(part) > 1 or not part.isalpha())]
    return (stem(whole), *informative)


def _split(piece: str) -> Iterator[str]:
    """A piece, its runs of letters and digits, and the words of a run: `getUser2` → getUser2, getUser, get, User, 2."""
    yield piece
    runs = _RUN.findall(piece)
    if len(runs) > 1:
        yield from runs
    for run in runs:
        words = _CAMEL.findall(run)
        if len(words) > 1:
            yield from words


_STOP = frozenset(stem(word) for word in _STOP_WORDS.split())
