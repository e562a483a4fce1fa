"""The JSON filter language of requests → Filter.

{"type": "pdf"}                                     a field equals a value
{"type": ["pdf", "html"]}                           … one of several values
{"time": {"gte": "2024-01-01", "lt": 1735689600}}   a number or an ISO 8601 date lies in [gte, lt)
{"and": [F, …]}   {"or": [F, …]}   {"not": F}       combinations; several keys in one object mean "and"
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TypeGuard

from slipstream.errors import InvalidRequest
from slipstream.types import And, Filter, Match, Not, Or, Range, Scalar

MAX_DEPTH = 8
MAX_CLAUSES = 64
_INTEGERS = range(-(2**63), 2**63)
"""What the store can hold."""


def parse_filter(value: object, param: str) -> Filter | None:
    """None for an absent or empty filter. Raises InvalidRequest naming the place, as `param` and a path behind it."""
    if value is None or value == {}:
        return None
    return _filter(value, param, MAX_DEPTH)


def _filter(value: object, at: str, depth: int) -> Filter:
    if depth == 0:
        raise InvalidRequest(f"A filter may be nested {MAX_DEPTH} deep at most.", param=at)
    if not isinstance(value, dict) or not value:
        raise InvalidRequest('A filter is an object such as {"type": "pdf"}.', param=at)
    if len(value) > MAX_CLAUSES:
        raise InvalidRequest(f"A filter may hold {MAX_CLAUSES} clauses at most.", param=at)
    clauses = tuple(_clause(str(key), clause, f"{at}.{key}", depth) for key, clause in value.items())
    return clauses[0] if len(clauses) == 1 else And(clauses)


def _clause(key: str, value: object, at: str, depth: int) -> Filter:
    if key == "and":
        return And(_filters(value, at, depth))
    if key == "or":
        return Or(_filters(value, at, depth))
    if key == "not":
        return Not(_filter(value, at, depth - 1))
    if isinstance(value, dict):
        return _range(key, value, at)
    values = value if isinstance(value, list) else [value]
    if not 1 <= len(values) <= MAX_CLAUSES:
        raise InvalidRequest(f"Give 1 to {MAX_CLAUSES} values.", param=at)
    return Match(key, tuple(_scalar(item, at) for item in values))


def _filters(value: object, at: str, depth: int) -> tuple[Filter, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_CLAUSES:
        raise InvalidRequest(f"Give a list of 1 to {MAX_CLAUSES} filters.", param=at)
    return tuple(_filter(item, f"{at}[{index}]", depth - 1) for index, item in enumerate(value))


def _scalar(value: object, at: str) -> Scalar:
    if isinstance(value, bool | str) or _is_number(value):
        return value
    raise InvalidRequest(
        "A field is compared with a string, a number of at most 64 bits, true or false, or a list of these.", param=at
    )


def _range(field: str, value: dict[object, object], at: str) -> Range:
    if not value or not value.keys() <= {"gte", "lt"}:
        raise InvalidRequest('A range has "gte" (from, included), "lt" (to, excluded), or both.', param=at)
    bounds = {str(key): _bound(bound, f"{at}.{key}") for key, bound in value.items()}
    return Range(field, bounds.get("gte"), bounds.get("lt"))


def _bound(value: object, at: str) -> float:
    if _is_number(value):
        return float(value)
    if isinstance(value, str):
        return iso_time(value, at)
    raise InvalidRequest("A bound is a number, or a date such as 2024-01-31 or 2024-01-31T12:00:00Z.", param=at)


def iso_time(value: str, at: str) -> float:
    """Seconds since the epoch of an ISO 8601 date or time; UTC unless it names an offset. Raises InvalidRequest."""
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise InvalidRequest(f'"{value}" is no ISO 8601 date, such as 2024-01-31.', param=at) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _is_number(value: object) -> TypeGuard[int | float]:
    """Finite, and no integer that does not fit in 64 bits."""
    if isinstance(value, int):
        return not isinstance(value, bool) and value in _INTEGERS
    return isinstance(value, float) and math.isfinite(value)
