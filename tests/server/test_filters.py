"""The JSON filter language."""

from __future__ import annotations

import pytest

from slipstream.errors import InvalidRequest
from slipstream.server.filters import parse_filter
from slipstream.types import And, Filter, Match, Not, Or, Range

PDF = Match("type", ("pdf",))
YEAR_2024 = Range("time", 1_704_067_200.0, 1_735_689_600.0)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ({}, None),
        ({"type": "pdf"}, PDF),
        ({"type": ["pdf", "html"]}, Match("type", ("pdf", "html"))),
        ({"draft": False}, Match("draft", (False,))),
        ({"floor": [-(2**63), 2**63 - 1]}, Match("floor", (-(2**63), 2**63 - 1))),
        ({"time": {"gte": "2024-01-01", "lt": 1735689600}}, YEAR_2024),
        ({"time": {"gte": "2024-01-01T01:00:00+01:00"}}, Range("time", 1_704_067_200.0, None)),
        ({"type": "pdf", "time": {"gte": "2024-01-01", "lt": "2025-01-01"}}, And((PDF, YEAR_2024))),
        ({"or": [{"type": "pdf"}, {"not": {"lang": "zh"}}]}, Or((PDF, Not(Match("lang", ("zh",)))))),
        ({"and": [{"type": "pdf"}]}, And((PDF,))),
    ],
)
def test_reads(value: object, expected: Filter | None) -> None:
    assert parse_filter(value, "filters") == expected


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ("pdf", "filters"),
        ({"type": None}, "filters.type"),
        ({"floor": 10**400}, "filters.floor"),
        ({"floor": 2**63}, "filters.floor"),
        ({"time": {"gte": 10**400}}, "filters.time.gte"),
        ({"type": []}, "filters.type"),
        ({"type": [{}]}, "filters.type"),
        ({"time": {"gt": 1}}, "filters.time"),
        ({"time": {}}, "filters.time"),
        ({"time": {"gte": "yesterday"}}, "filters.time.gte"),
        ({"time": {"lt": True}}, "filters.time.lt"),
        ({"time": {"lt": float("nan")}}, "filters.time.lt"),
        ({"and": {"type": "pdf"}}, "filters.and"),
        ({"or": []}, "filters.or"),
        ({"or": [{"type": "pdf"}, 3]}, "filters.or[1]"),
        ({"not": {}}, "filters.not"),
    ],
)
def test_names_the_place_of_a_fault(value: object, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_filter(value, "filters")
    assert caught.value.param == param


def test_depth_is_bounded() -> None:
    value: dict[str, object] = {"type": "pdf"}
    for _ in range(5_000):
        value = {"not": value}
    with pytest.raises(InvalidRequest, match="nested"):
        parse_filter(value, "filters")
