"""Whether two questions agree in form: numbers, names, negation, polarity, what is asked, who does what to whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from slipstream.cache.form import Form, Word
from slipstream.cache.form_en import parse_en
from slipstream.cache.form_zh import parse_zh
from slipstream.types import Language

_NAME_STEM = 4
_NAME_ENDINGS = frozenset({"n", "an", "ian", "s", "es", "ese", "ish", "'"})

Spans = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class FormVerdict:
    """What the guard found. Passing means that nothing contradicts; words without a counterpart remain to be judged."""

    passed: bool
    reason: str
    only_first: Spans = ()
    """Character spans of content words that the second question has no counterpart for."""
    only_second: Spans = ()

    @property
    def equal(self) -> bool:
        """The same content words: a difference of function words and order only."""
        return self.passed and not self.only_first and not self.only_second


def parse(text: str, language: Language) -> Form:
    return parse_zh(text) if language == "zh" else parse_en(text)


def compare(first: str, second: str, language: Language) -> FormVerdict:
    """Pure and deterministic; tens of microseconds for two questions of a dozen words."""
    one, other = parse(first, language), parse(second, language)
    reason = _contradiction(one, other)
    if reason:
        return FormVerdict(False, reason)
    only_first, only_second = _unmatched(one, other), _unmatched(other, one)
    for words, form in ((only_first, other), (only_second, one)):
        for word in words:
            if not word.is_name or any(_same_name(word.text, name) for name in form.names):
                continue
            return FormVerdict(False, f"names differ ({word.text})")
    if (moved := _moved(one, other)) is not None:
        return FormVerdict(False, f"order differs ({moved})")
    return FormVerdict(True, "agrees", _spans(only_first), _spans(only_second))


def _contradiction(one: Form, other: Form) -> str:
    if one.numbers.keys() != other.numbers.keys():
        return f"numbers differ ({_listed(one.numbers)} / {_listed(other.numbers)})"
    if one.negations != other.negations:
        return "negation differs"
    for axis, ends in one.poles.items():
        if other.poles.get(axis, ends) != ends:
            return f"opposites ({axis})"
    if not one.asks & other.asks:
        return f"they ask for different things ({'/'.join(sorted(one.asks))} / {'/'.join(sorted(other.asks))})"
    if {one.role, other.role} == {"agent", "patient"}:
        return "who does it and whom it is done to are exchanged"
    for this, that in ((one, other), (other, one)):
        missing = [name for name in this.names if name not in that.names and not _occurs(name, that)]
        if missing:
            return f"names differ ({missing[0]})"
    return ""


def _occurs(name: str, form: Form) -> bool:
    return any(word.text == name or name in word.text.split() for word in form.words) or any(
        _same_name(name, other) for other in form.names
    )


def _same_name(one: str, other: str) -> bool:
    """Victoria and Victorian, India and Indian, X and X's."""
    shorter, longer = sorted((one, other), key=len)
    return len(shorter) >= _NAME_STEM and longer.startswith(shorter) and longer[len(shorter) :] in _NAME_ENDINGS


def _listed(numbers: Mapping[str, int]) -> str:
    return ", ".join(sorted(numbers)) or "none"


def _unmatched(this: Form, that: Form) -> list[Word]:
    left = dict(that.counts)
    unmatched = []
    for word in this.words:
        if left.get(word.text, 0) > 0:
            left[word.text] -= 1
        elif not that.counts.get(word.text):
            unmatched.append(word)
    return unmatched


def _spans(words: list[Word]) -> Spans:
    return tuple((word.start, word.end) for word in words)


_Placed = tuple[Word, Word, int]
"""A word of the first question, the same in the second, and its place there."""


def _moved(one: Form, other: Form) -> str | None:
    """Two parts that change places and with them the meaning; None when the order agrees.

    A question that asks for one of its arguments may be turned round as long as the others keep their order. What
    keeps its own preposition may move, and so may a date; two dates, or two names under one preposition, may not
    change places. In Chinese, where fewer words mark what they stand for, a statement and a question for yes or no
    must keep the order of all words: it is all that tells "A includes B" from "B includes A".
    """
    if one.language == "zh" and (one.asks | other.asks) & {"none", "yes_no"}:
        return _first_difference(one.words, other.words)
    if any(word.is_name and one.counts[word.text] > 1 for word in one.words):
        names = [[word for word in form.words if word.is_name] for form in (one, other)]
        if (differs := _first_difference(*names)) is not None:
            return differs  # which of two equal names has moved cannot be told
    places = {word.text: index for index, word in enumerate(other.words) if other.counts[word.text] == 1}
    shared = [
        (word, other.words[places[word.text]], places[word.text])
        for word in one.words
        if one.counts[word.text] == 1 and word.text in places
    ]
    if all(a < b for a, b in pairwise(place for *_, place in shared)):
        return None
    parts = _runs(shared) if one.language == "zh" else [[placed] for placed in shared]
    turned = one.turned or other.turned
    for index, first in enumerate(parts):
        for second in parts[index + 1 :]:
            if first[0][2] > second[0][2] and _exchanged(first, second, one.language, turned):
                return f"{first[0][0].text}, {second[0][0].text}"
    return None


def _first_difference(one: Sequence[Word], other: Sequence[Word]) -> str | None:
    """The first word, of those in both, that stands elsewhere."""
    shared = {word.text for word in one} & {word.text for word in other}
    mine = [word.text for word in one if word.text in shared]
    theirs = [word.text for word in other if word.text in shared]
    return next((a for a, b in zip(mine, theirs, strict=False) if a != b), None)


def _runs(shared: list[_Placed]) -> list[list[_Placed]]:
    """Words that follow each other in both questions: Chinese arguments, as far as can be told without a parser."""
    runs: list[list[_Placed]] = []
    ends_at = -1
    for placed in shared:
        word, _, place = placed
        if runs and runs[-1][-1][2] + 1 == place and ends_at == word.start and not word.is_name:
            runs[-1].append(placed)
        else:
            runs.append([placed])
        ends_at = word.end
    return runs


def _exchanged(first: list[_Placed], second: list[_Placed], language: Language, turned: bool) -> bool:
    """Whether two parts that stand the other way round in the second question exchange what they do there."""
    (one, moved, _), (two, against, _) = first[0], second[0]
    if one.marker != moved.marker and (one.marker, two.marker) == (against.marker, moved.marker):
        return True
    free = _keeps_marker(one, moved), _keeps_marker(two, against)
    if one.floats or two.floats:
        return one.floats and two.floats
    if any(free):
        return all(free) and one.marker == two.marker
    if (one.is_name or moved.is_name) and (two.is_name or against.is_name):
        return True
    if language == "zh":
        return not turned and all(len(part) > 1 or part[0][0].is_name for part in (first, second))
    return _both_argue(one, two, moved, against)


def _keeps_marker(here: Word, there: Word) -> bool:
    return bool(here.marker and here.marker == there.marker)


def _both_argue(one: Word, two: Word, moved: Word, against: Word) -> bool:
    """Whether both are names or nouns with an article, and in neither question parts of one phrase."""
    if one.chunk == two.chunk or moved.chunk == against.chunk:
        return False
    return all(word.argues for word in (one, two, moved, against))
