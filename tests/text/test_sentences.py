from __future__ import annotations

import random

import pytest

from slipstream.text.sentences import LONGEST, sentences


def split(text: str) -> list[str]:
    return [text[start:end] for start, end in sentences(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'Dr. Smith paid 3.5 dollars. He left at 5 p.m. Then, e.g. nothing. "Stop!" she said.',
            ["Dr. Smith paid 3.5 dollars.", "He left at 5 p.m.", "Then, e.g. nothing.", '"Stop!" she said.'],
        ),
        (
            "J. R. Smith came. See Fig. 3 for more. No. 7 won, didn't it? Yes.",
            ["J. R. Smith came.", "See Fig. 3 for more.", "No. 7 won, didn't it?", "Yes."],
        ),
        ("Version 0.1.2 of fastapi.com is out. Use it.", ["Version 0.1.2 of fastapi.com is out.", "Use it."]),
        ("What? No way... really. Yes... It is.", ["What?", "No way... really.", "Yes...", "It is."]),
        (
            "今天下雨了。你好吗？“好。”他说。价格是3.5元；很贵……真的！",
            ["今天下雨了。", "你好吗？", "“好。”", "他说。", "价格是3.5元；", "很贵……", "真的！"],
        ),
        ("床前明月光\n疑是地上霜\n举头望明月\n低头思故乡", ["床前明月光", "疑是地上霜", "举头望明月", "低头思故乡"]),
        ("在 2024 年. 版本 v1.2 发布了.然后呢", ["在 2024 年.", "版本 v1.2 发布了.", "然后呢"]),
        (
            "A line that is wrapped by its margin, more than fifty columns wide,\nGoes on here. Then ends.",
            ["A line that is wrapped by its margin, more than fifty columns wide,\nGoes on here.", "Then ends."],
        ),
        (
            "# In a hurry? Read this\n- item one\n- item two. More\n1. First step. Second",
            ["# In a hurry? Read this", "- item one", "- item two.", "More", "1. First step.", "Second"],
        ),
        ("Run:\n\n```sh\na = b. C = d\nls -l\n```\n", ["Run:", "```sh", "a = b. C = d", "ls -l"]),
        ("| a | b |\n|---|---|\n| 1. X | 2 |", ["| a | b |", "| 1. X | 2 |"]),
    ],
)
def test_splits_where_a_reader_would(text: str, expected: list[str]) -> None:
    assert split(text) == expected


@pytest.mark.parametrize("text", ["", " ", "\n\t \n", "\u3000"])
def test_a_blank_text_has_none(text: str) -> None:
    assert sentences(text) == ()


@pytest.mark.parametrize("text", ["a", "---", "。", "```", "1.", "…", "é"])
def test_anything_else_has_at_least_one(text: str) -> None:
    assert split(text) == [text]


def test_a_long_sentence_is_cut_at_a_comma_in_both_languages() -> None:
    for clause in ("some words of a clause, ", "这是一个很长的分句，"):
        pieces = split(clause * 100)
        assert len(pieces) > 1
        assert all(len(piece) <= LONGEST for piece in pieces)
        assert all(piece.endswith((",", "，")) for piece in pieces)


def test_a_run_without_any_mark_is_cut_all_the_same() -> None:
    assert [len(piece) for piece in split("x" * 1000)] == [400, 400, 200]


ALPHABET = ["a", "B", "1", " ", "\n", ".", "!", "?", "。", "！", "；", "…", "中", "文", ",", "，", '"', "”", "- ", "# "]
ALPHABET += ["```", "|", "e.g.", "\t", "\u3000", "🤖", "\u0301", ")", "Dr.", "    ", "word " * 30, "很长" * 60]


@pytest.mark.parametrize("seed", range(300))
def test_spans_are_ordered_trimmed_and_cover_every_word(seed: int) -> None:
    pick = random.Random(seed)
    text = "".join(pick.choices(ALPHABET, k=pick.randrange(1, 120)))
    spans = sentences(text)
    assert bool(spans) == bool(text.strip())
    covered: set[int] = set()
    last = 0
    for start, end in spans:
        assert last <= start < end <= len(text)
        assert text[start:end] == text[start:end].strip()
        assert end - start <= LONGEST
        covered.update(range(start, end))
        last = end
    assert all(at in covered for at, character in enumerate(text) if character.isalnum())


UNITS = ["!", "。", "a. ", ". ", "a\n", "x", "*", "- ", "1.", '."', "A.A.", "```\n", "（一", "\n"]


@pytest.mark.parametrize("unit", UNITS)
def test_hostile_repetition_stays_linear(unit: str) -> None:
    sentences(unit * (300_000 // len(unit)) + "x")
