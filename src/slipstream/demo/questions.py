"""The demo corpus on disk, and the 40 questions over it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from slipstream.types import Language

CORPUS = Path(__file__).with_name("corpus")
"""Markdown pages under en/ and zh/; MIT, see CORPUS_LICENSE.txt."""


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    id: str
    language: Language
    document: str
    """Path below CORPUS of the page that answers it: the document id after `ingest CORPUS`."""
    question: str
    answers: tuple[str, ...]
    """A right answer contains one of them."""


def demo_questions() -> list[DemoQuestion]:
    """20 English ones, then 20 Chinese ones."""
    entries = json.loads(Path(__file__).with_name("questions.json").read_text(encoding="utf-8"))
    return [DemoQuestion(**{**entry, "answers": tuple(entry["answers"])}) for entry in entries]
