"""Whether an answer says what a right answer says."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from slipstream.text.plain import plain


def contains(answer: str, golds: Sequence[str]) -> bool:
    """A gold string occurs in the answer as whole words; NFKC, case and white space folded, markup left out."""
    said = _folded(plain(answer))
    return any(_occurs(_folded(gold), said) for gold in golds)


def _occurs(gold: str, said: str) -> bool:
    """Bounded by no ASCII letter or digit, so that 201 is not found in 2010; Han text knows no such bounds."""
    before = "(?<![a-z0-9])" if gold[:1].isascii() and gold[:1].isalnum() else ""
    after = "(?![a-z0-9])" if gold[-1:].isascii() and gold[-1:].isalnum() else ""
    return re.search(f"{before}{re.escape(gold)}{after}", said) is not None


def _folded(text: str) -> str:
    return re.sub(r"[\s`\"'“”‘’]+", " ", unicodedata.normalize("NFKC", text).casefold()).strip()
