"""A looping model is noticed; lists, tables and code are not mistaken for loops."""

from __future__ import annotations

import pytest

from slipstream.answer.loops import LoopGuard


def noticed(text: str, size: int = 4) -> bool:
    guard = LoopGuard()
    return any(guard.looping(text[i : i + size]) for i in range(0, len(text), size))


@pytest.mark.parametrize(
    "text", ["```\n\n" * 80, "The answer is incorrect. " * 20, "是的，" * 140, "A start. " + "no " * 140]
)
def test_loops_are_noticed(text: str) -> None:
    assert noticed(text)


@pytest.mark.parametrize(
    "text",
    [
        "One sentence says this. Another says that, at some length, and a third one ends it.",
        "| a | b |\n| --- | --- |\n| 1 | 2 |\n| 3 | 4 |\n| 5 | 6 |\n| 7 | 8 |\n",
        "1. install\n2. configure\n3. run\n4. measure\n5. tune\n6. repeat if needed\n",
        "首先安装，然后配置，接着运行，最后测量；如果不够快，就再调整一次参数，直到满意为止。",
        "x = [0, 0, 0, 0, 0, 0]\nfor i in range(6):\n    x[i] = i\n",
    ],
)
def test_ordinary_text_is_not(text: str) -> None:
    assert not noticed(text, 1)
    assert not noticed(text, 7)
