"""Whether a stored answer may serve a new question: form, then evidence, then meaning; uncertain means no."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slipstream.cache.codec import token_vectors
from slipstream.cache.entry import Entry
from slipstream.cache.evidence import still_rests
from slipstream.cache.guard import FormVerdict, compare
from slipstream.cache.meaning import Closeness, closeness
from slipstream.types import Encoding, Evidence, Language, Verdict


@dataclass(frozen=True, slots=True)
class Thresholds:
    """How close in meaning two differently worded questions must be, for one language and encoder."""

    both_ways: float
    """Lowest MaxSim mean, both ways."""
    weakest: float
    """How well the least covered word without a counterpart must be covered."""
    alone_both_ways: float = 2.0
    """The same where no document vouches for the two; above 1 means never."""
    alone_weakest: float = 2.0


@dataclass(frozen=True, slots=True)
class Asked:
    """A new question as far as it has come: encoded, and searched for."""

    text: str
    language: Language
    encoding: Encoding
    found: Sequence[Evidence]


@dataclass(frozen=True, slots=True)
class Judgement:
    """May serve only if every verdict passed."""

    verdicts: tuple[Verdict, ...]

    @property
    def passed(self) -> bool:
        return all(verdict.passed for verdict in self.verdicts)

    @property
    def rejected_by(self) -> str:
        return next((verdict.check for verdict in self.verdicts if not verdict.passed), "")


class Verifier:
    """Pure, tens of microseconds a candidate; thresholds by language, without which only equal words pass."""

    def __init__(self, thresholds: Mapping[Language, Thresholds]) -> None:
        self._thresholds = thresholds

    def same_words(self, entry: Entry, found: Sequence[Evidence]) -> Judgement:
        """For the very question that was stored: only the documents may have changed."""
        return Judgement((still_rests(entry, found, same_words=True),))

    def other_words(self, entry: Entry, asked: Asked) -> Judgement:
        """For a question near to the stored one."""
        verdict, form = self.form(entry.text, asked.text, entry.language, asked.language)
        if not verdict.passed:
            return Judgement((verdict,))
        evidence = still_rests(entry, asked.found, same_words=False)
        if not evidence.passed or not entry.cited:
            refused = Verdict("evidence", passed=False, detail="only the same words ask for what is not there")
            return Judgement((verdict, refused if evidence.passed else evidence))
        return Judgement((verdict, evidence, self._meaning(entry, asked, form)))

    def form(
        self, stored: str, asked: str, stored_language: Language, language: Language
    ) -> tuple[Verdict, FormVerdict]:
        if stored_language != language or language not in self._thresholds:
            form = FormVerdict(False, "no threshold is known for this language")
        else:
            form = compare(stored, asked, language)
        return Verdict("form", form.passed, form.reason), form

    def judge(self, close: Closeness, form: FormVerdict, language: Language, *, alone: bool = False) -> Verdict:
        """`alone` when no document vouches for the two."""
        bounds = self._thresholds[language]
        both_ways = bounds.alone_both_ways if alone else bounds.both_ways
        weakest = bounds.alone_weakest if alone else bounds.weakest
        passed = close.both_ways >= both_ways and close.weakest >= weakest
        detail = f"both ways {close.both_ways:.3f}, weakest word {close.weakest:.3f}"
        return Verdict("meaning", passed, "same words" if form.equal and passed else detail)

    def _meaning(self, entry: Entry, asked: Asked, form: FormVerdict) -> Verdict:
        close = closeness(
            token_vectors(entry.tokens), entry.tokens.offsets, asked.encoding.tokens, asked.encoding.offsets, form
        )
        return self.judge(close, form, asked.language)
