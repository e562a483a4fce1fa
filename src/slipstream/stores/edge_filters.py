"""Scope and Filter → Qdrant Edge filters."""

from __future__ import annotations

from typing import Any, TypeAlias

import qdrant_edge as edge

from slipstream.stores.edge_payload import TRUTHS
from slipstream.stores.fields import metadata_key
from slipstream.types import And, Filter, Match, Not, Or, Range, Scalar, Scope

_Conditions: TypeAlias = list[Any]
"""Of whatever kinds the engine accepts."""

_EXACT_INTEGERS = 2**53
"""Beyond it a float no longer tells neighbours apart, and the engine's ranges are floats."""


NOTHING = edge.Filter(must=[edge.HasIdCondition(set())])
"""Accepts no passage."""


def scope_filter(scope: Scope) -> edge.Filter:
    return edge.Filter(must=_conditions(scope))


def named_in_scope(passage_ids: list[str], scope: Scope) -> edge.Filter:
    return edge.Filter(must=[*_conditions(scope), edge.HasIdCondition(set(passage_ids))])


def _conditions(scope: Scope) -> _Conditions:
    conditions: _Conditions = [_text_match("tenant", [scope.tenant])]
    if scope.collections:
        conditions.append(_text_match("collection", list(scope.collections)))
    return conditions if scope.filter is None else [*conditions, _translate(scope.filter)]


def _text_match(key: str, values: list[str]) -> edge.FieldCondition:
    return edge.FieldCondition(key, match=edge.MatchAny(values))


def _translate(clause: Filter) -> edge.Filter:
    match clause:
        case Match():
            return _any([_equals(clause.field, value) for value in clause.values])
        case Range():
            bounds = edge.RangeFloat(gte=clause.gte, lt=clause.lt)
            return edge.Filter(must=[edge.FieldCondition(field_path(clause.field), range=bounds)])
        case And():
            return edge.Filter(must=[_translate(inner) for inner in clause.clauses])
        case Or():
            return _any([_translate(inner) for inner in clause.clauses])
        case Not():
            return edge.Filter(must_not=[_translate(clause.clause)])


def _any(conditions: _Conditions) -> edge.Filter:
    """An empty `should` would accept everything; nothing of nothing is nothing."""
    return edge.Filter(should=conditions) if conditions else NOTHING


def _equals(field: str, value: Scalar) -> edge.Filter:
    path = field_path(field)
    if isinstance(value, bool):
        truth = edge.MatchValue(str(value))
        return edge.Filter(must=[edge.FieldCondition(path.replace("metadata", TRUTHS, 1), match=truth)])
    if isinstance(value, str) or (isinstance(value, int) and abs(value) > _EXACT_INTEGERS):
        return edge.Filter(must=[edge.FieldCondition(path, match=edge.MatchValue(value))])
    return edge.Filter(must=[edge.FieldCondition(path, range=edge.RangeFloat(gte=value, lte=value))])


def field_path(field: str) -> str:
    key = metadata_key(field)
    return field if key is None else f'metadata."{key}"'
