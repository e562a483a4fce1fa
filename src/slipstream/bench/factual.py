"""Factual questions over the demo corpus with the strings that a right answer contains."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from slipstream.types import Language


@dataclass(frozen=True, slots=True)
class Factual:
    question: str
    language: Language
    answers: tuple[str, ...]
    document: str


def factual_questions() -> tuple[Factual, ...]:
    raw = json.loads(files("slipstream.demo").joinpath("questions.json").read_text("utf-8"))
    return tuple(Factual(q["question"], q["language"], tuple(q["answers"]), q["document"]) for q in raw)


def contains(answer: str, golds: Sequence[str]) -> bool:
    """A gold string occurs in the answer, by NFKC, case and punctuation folded."""
    said = _folded(answer)
    return any(_folded(gold) in said for gold in golds)


def _folded(text: str) -> str:
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", text).casefold())
