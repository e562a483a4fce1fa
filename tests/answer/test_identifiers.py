"""Which parts of a question are identifiers, and which texts hold them."""

from __future__ import annotations

import pytest

from slipstream.answer.identifiers import identifiers


@pytest.mark.parametrize(
    ("question", "holding", "other"),
    [
        ("What is error E1234-5?", "Error e1234-5: stopped.", "Error E1234-56 or E1235-4."),
        ("错误码E1234-6怎么处理", "错误码E1234-6表示水泵过热。", "错误码E6与1234。"),
        ("what does getUserName return", "Call getUserName() first.", "The user gets a name."),
        ("parse_header 返回什么", "函数parse_header返回头部。", "parse_header_v2, parse header"),
        ("what changed in 2.3.5", "Release 2.3.5 mends it.", "Release 2.3.50 and 3.5.2"),
        ("What does std::move do?", "std::move casts.", "std::remove deletes."),
    ],
)
def test_what_is_named_is_found_as_it_stands(question: str, holding: str, other: str) -> None:
    named = identifiers(question)
    assert named.share_in(holding) == 1
    assert named.share_in(other) == 0


@pytest.mark.parametrize(
    "question",
    ["Who won in the 1980s?", "A 20th-century painter of the U.S.", "5km in 20min? 3-4 or 2023-01-02", "哪一年？", ""],
)
def test_ordinary_words_and_quantities_are_no_identifiers(question: str) -> None:
    assert not [pattern.pattern for pattern in identifiers(question).patterns]


def test_a_part_of_them_is_a_share() -> None:
    assert identifiers("max_size or min_size").share_in("max_size is ten") == 0.5
