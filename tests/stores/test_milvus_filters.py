"""Filters become Milvus expressions in which no value can leave its quotes."""

from __future__ import annotations

import math

import pytest

from slipstream.errors import InvalidRequest
from slipstream.stores.milvus_filters import ALWAYS, NEVER, named_in_scope, quoted, scope_expression
from slipstream.types import And, Filter, Match, Not, Or, Range, Scope

EVIL = 'x" or id != "'


def inside(clause: Filter) -> str:
    expression = scope_expression(Scope("a", filter=clause))
    return expression.removeprefix('(tenant == "a") and ')[1:-1]


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("plain 文本", '"plain 文本"'),
        (EVIL, '"x\\" or id != \\""'),
        ("back\\", '"back\\\\"'),
        ("a\nb\0", '"a\\nb\\u0000"'),
        ("{x} %s", '"{x} %s"'),
        ("\u2028", '"\\u2028"'),
    ],
)
def test_quoting_leaves_no_way_out(text: str, literal: str) -> None:
    assert quoted(text) == literal


@pytest.mark.parametrize("text", [EVIL, "\\", '\\"', '"', '\\\\" or true', "\n"])
def test_a_literal_ends_where_it_should(text: str) -> None:
    """Read as the grammar reads it: a quote ends the literal unless an odd number of backslashes is before it."""
    body, escaped = quoted(text)[1:-1], False
    for character in body:
        assert escaped or character != '"'
        assert character >= " "
        escaped = character == "\\" and not escaped
    assert not escaped


def test_every_place_a_text_can_stand_is_quoted() -> None:
    everywhere = And((Match("title", (EVIL,)), Match("author", (EVIL,)), Match(EVIL.replace('"', "'"), (EVIL,))))
    expression = named_in_scope([EVIL], Scope(EVIL, (EVIL,), everywhere))
    assert expression.count(quoted(EVIL)) == 6
    assert EVIL not in expression


@pytest.mark.parametrize(
    ("clause", "expression"),
    [
        (Match("type", ("pdf", "html", "pdf")), 'type in ["pdf", "html"]'),
        (Match("type", (1, True)), NEVER),
        (Match("type", ("\ud800",)), NEVER),
        (Match("page", (1, 2.0, 2.5, True, "3", 2**70, math.inf)), "page in [1, 2]"),
        (Match("tenant", ("a", "b")), ALWAYS),
        (Match("tenant", ("b",)), NEVER),
        (Range("position", gte=2.5, lt=7), f"(position > {-(2**62)}) and (position >= 3) and (position < 7)"),
        (Range("page"), f"(page > {-(2**62)})"),
        (Range("time", gte=1), "(time >= 1.0)"),
        (Range("time", gte=math.nan), NEVER),
        (Range("time", gte=math.inf), NEVER),
        (Range("time", gte=-math.inf), ALWAYS),
        (Range("title", gte=1), NEVER),
        (And(()), ALWAYS),
        (Or(()), NEVER),
        (Not(Or(())), f"not ({NEVER})"),
        (Match("rank", (2,)), '(((exists metadata["rank"]) and (((metadata["rank"] == 2)))))'),
        (Match("draft", (True,)), '(((exists truths["draft"]) and (((truths["draft"] == true)))))'),
        (Match("rank", (math.nan, 2**70, "\udc00")), NEVER),
    ],
)
def test_what_a_filter_becomes(clause: Filter, expression: str) -> None:
    assert inside(clause) == expression


@pytest.mark.parametrize("name", ["", "metadata.", 'a"b', "a\\b"])
def test_a_name_that_cannot_be_quoted_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest):
        inside(Match(name, ("x",)))


def test_a_tenant_nobody_can_have_matches_nothing() -> None:
    assert scope_expression(Scope("\ud800")) == f"({NEVER})"
