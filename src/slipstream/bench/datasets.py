"""Evaluation sets: the samples shipped with the package, and SciFact from the reader's own copy."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import re
import sys
import zipfile
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from slipstream.errors import ConfigError

_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"")
SHIPPED = ("xquad_en", "xquad_zh", "xquad_zh_en", "cmrc2018_dev")
_ACROSS = {"xquad_zh_en": ("xquad_zh", "xquad_en")}
"""Questions of one set over the passages of another, its translation: item for item, passage for passage."""


@dataclass(frozen=True, slots=True)
class Item:
    """One question, the passages that answer it and the answer strings."""

    question: str
    relevant: frozenset[int]
    """Indexes into the set's passages."""
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EvaluationSet:
    name: str
    passages: tuple[str, ...]
    items: tuple[Item, ...]

    def sample(self, count: int, seed: int = 0) -> EvaluationSet:
        """The same passages with `count` questions drawn at random."""
        if count >= len(self.items):
            return self
        return EvaluationSet(self.name, self.passages, tuple(random.Random(seed).sample(self.items, count)))


def shipped(name: str) -> EvaluationSet:
    """One of SHIPPED, as it comes with the package; answers are in the passages' language."""
    asked, read = _ACROSS.get(name, (name, name))
    passages = _data(read)
    answers = {q["id"]: q for q in passages["questions"]}
    items = tuple(
        Item(q["question"], frozenset({answers[q["id"]]["passage"]}), tuple(answers[q["id"]]["answers"]))
        for q in _data(asked)["questions"]
    )
    return EvaluationSet(name, tuple(passages["passages"]), items)


def _data(name: str) -> dict[str, Any]:
    raw = files("slipstream.bench").joinpath("data", f"{name}.json.gz").read_bytes()
    data: dict[str, Any] = json.loads(gzip.decompress(raw))
    return data


def scifact(archive: Path) -> EvaluationSet:
    """SciFact's 300 validation claims over its 5,183 abstracts, from the CSV export `scifact.zip`.

    Relevance is BEIR's: the abstracts a claim cites. Raises ConfigError when the archive is not that.
    """
    if not archive.is_file():
        raise ConfigError(f"{archive} does not exist. Name a copy of SciFact's scifact.zip.")
    csv.field_size_limit(sys.maxsize)
    with zipfile.ZipFile(archive) as zipped:
        documents = {row["doc_id"]: row for row in _rows(zipped, "corpus_train.csv")}
        claims: dict[str, set[str]] = {}
        for row in _rows(zipped, "claims_validation.csv"):
            claims.setdefault(row["claim"], set()).update(re.findall(r"\d+", row["cited_doc_ids"]))
    index = {doc_id: i for i, doc_id in enumerate(documents)}
    passages = tuple(f"{row['title']}. {_abstract(row['abstract'])}" for row in documents.values())
    items = tuple(Item(claim, frozenset(index[d] for d in cited if d in index), ()) for claim, cited in claims.items())
    return EvaluationSet("scifact", passages, items)


def _rows(archive: zipfile.ZipFile, name: str) -> list[dict[str, str]]:
    member = next((m for m in archive.namelist() if m.endswith(name)), None)
    if member is None:
        raise ConfigError(f"The archive holds no {name}: it is not SciFact's CSV export.")
    with archive.open(member) as raw:
        return list(csv.DictReader(io.TextIOWrapper(raw, "utf-8")))


def _abstract(printed: str) -> str:
    """An abstract printed as a list of quoted sentences, joined by spaces."""
    return " ".join(single or double for single, double in _QUOTED.findall(printed))
