"""Markers survive any split of the stream; citations to nothing vanish."""

from __future__ import annotations

import pytest

from slipstream.answer.citations import CitationFilter


def stream(text: str, count: int, size: int) -> tuple[str, list[int]]:
    markers = CitationFilter(range(1, count + 1))
    out = "".join(markers.feed(piece) for piece in _split(text, size)) + markers.flush()
    return out, markers.cited


def _split(text: str, size: int) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
@pytest.mark.parametrize(
    ("text", "count", "clean", "cited"),
    [
        ("It has two rooms [1].", 2, "It has two rooms [1].", [1]),
        ("It has two rooms [7].", 2, "It has two rooms.", []),
        ("Both say so [1, 2] and [3].", 2, "Both say so [1][2] and.", [1, 2]),
        ("有两个房间【2】。", 2, "有两个房间[2]。", [2]),
        ("有两个房间[1，9]。", 2, "有两个房间[1]。", [1]),
        ("items[0] and x[12:3]", 2, "items[0] and x[12:3]", []),
        ("use `items [7]` here [1]", 2, "use `items [7]` here [1]", [1]),
        ("a [link](url) stays", 1, "a [link](url) stays", []),
        ("ends open [1", 1, "ends open [1", []),
        ("no markers", 0, "no markers", []),
    ],
)
def test_filter(size: int, text: str, count: int, clean: str, cited: list[int]) -> None:
    assert stream(text, count, size) == (clean, cited)


def test_text_without_brackets_is_not_held_back() -> None:
    markers = CitationFilter({1})
    assert markers.feed("plain text") == "plain text"
