"""Pairs of questions with a label, for calibrating and proving the answer cache: shipped sets, or a reader's own."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal

from slipstream.bench.negatives import hard_negatives
from slipstream.errors import ConfigError
from slipstream.text.language import language_of
from slipstream.types import Language

Half = Literal["dev", "held"]
"""What thresholds and word lists were tuned on, and what is reported."""


@dataclass(frozen=True, slots=True)
class Pair:
    first: str
    second: str
    same: bool
    """Whether an answer to one answers the other."""
    language: Language
    source: str


@dataclass(frozen=True, slots=True)
class Paraphrase:
    """A question of a shipped set in other words."""

    set_name: str
    item: int
    question: str
    other_words: str
    language: Literal["en", "zh"]


def paraphrases(half: Half | None = None) -> list[Paraphrase]:
    """Even ones for tuning, odd ones for reporting."""
    lines = files("slipstream.bench").joinpath("data", "paraphrases.jsonl").read_text(encoding="utf-8").splitlines()
    read = [json.loads(line) for line in lines]
    found = [
        Paraphrase(r["set"], r["item"], r["question"], r["paraphrase"], "en" if r["set"] == "xquad_en" else "zh")
        for r in read
    ]
    return _half(found, half)


def paws_pairs(half: Half | None = None) -> list[Pair]:
    """PAWS-X, Chinese dev: nearly the same wording, half of it different in meaning."""
    raw = gzip.decompress(files("slipstream.bench").joinpath("data", "pawsx_zh_dev.tsv.gz").read_bytes()).decode()
    rows = list({line.partition("\t")[2]: line.split("\t") for line in raw.splitlines()[1:]}.values())
    chosen = [row for row in rows if half is None or (int(row[0]) % 2 == 0) == (half == "dev")]
    return [
        Pair(first, second, label == "1", "zh", "paws-x zh")
        for _, first, second, label in chosen
        if label == "1" or "".join(first.split()) != "".join(second.split())  # some are labelled apart from themselves
    ]


def gptcache_pairs() -> list[Pair]:
    raw = gzip.decompress(files("slipstream.bench").joinpath("data", "gptcache_pairs.json.gz").read_bytes())
    return [Pair(first, second, True, "en", "gptcache") for first, second in json.loads(raw)]


def negative_pairs(count: int, half: Half) -> list[Pair]:
    """Hard negatives of even items for tuning, of odd ones for reporting."""
    parity, seed = (0, 1) if half == "dev" else (1, 3)
    made = hard_negatives(count, seed, lambda item: item % 2 == parity)
    return [Pair(n.question, n.changed, False, n.language, f"swapped {n.change}") for n in made]


def shipped_pairs(half: Half) -> list[Pair]:
    """What `cache calibrate` measures on when it is given no pairs."""
    same = [Pair(p.question, p.other_words, True, p.language, "paraphrase") for p in paraphrases(half)]
    return [*same, *negative_pairs(1_000, half), *(p for p in paws_pairs(half) if not p.same)]


def read_pairs(path: Path) -> list[Pair]:
    """One JSON object a line: `first`, `second`, `same`. Raises ConfigError naming the line that is not that."""
    pairs = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            first, second, same = str(row["first"]), str(row["second"]), row["same"]
        except (ValueError, KeyError, TypeError):
            same = None
        if not isinstance(same, bool):
            raise ConfigError(
                f'{path}, line {number}: expected {{"first": "…", "second": "…", "same": true or false}}.'
            )
        pairs.append(Pair(first, second, same, language_of(first), path.name))
    if not pairs:
        raise ConfigError(f"{path} holds no pairs.")
    return pairs


def _half(found: list[Paraphrase], half: Half | None) -> list[Paraphrase]:
    if half is None:
        return found
    return found[0 if half == "dev" else 1 :: 2]
