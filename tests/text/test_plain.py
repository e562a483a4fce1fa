"""Markup that says nothing goes; wording and code stay."""

from __future__ import annotations

import pytest

from slipstream.text.plain import plain


@pytest.mark.parametrize(
    ("marked", "clean"),
    [
        ('$ <font color="#4E9A06">fastapi</font> dev', "$ fastapi dev"),
        ("## Run it { #run-it }", "## Run it"),
        ("uses **[Uvicorn](https://uvicorn.dev)**, an ASGI server", "uses Uvicorn, an ASGI server"),
        ('the [docs](../a_(b).md "title"){.internal-link target=_blank}', "the docs"),
        ("使用**依赖项**和[表单](forms.md)。", "使用依赖项和表单。"),
        ("a * b * c and x ** y", "a * b * c and x ** y"),
        ("if a < b and List[int](x) > 0:", "if a < b and List[int](x) > 0:"),
        ("def f(*args, **kwargs): ...", "def f(*args, **kwargs): ..."),
        ("`Optional[str]` is a type", "`Optional[str]` is a type"),
    ],
)
def test_plain(marked: str, clean: str) -> None:
    assert plain(marked) == clean
