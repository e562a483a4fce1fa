"""Scope and Filter → Qdrant's filters on the wire."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from qdrant_client import grpc

from slipstream.stores.fields import metadata_key
from slipstream.stores.payload import TRUTHS
from slipstream.types import And, Filter, Match, Not, Or, Range, Scalar, Scope

_EXACT_INTEGERS = 2**53
"""Beyond it a float no longer tells neighbours apart, and ranges are floats."""


def scope_filter(scope: Scope) -> grpc.Filter:
    return grpc.Filter(must=_conditions(scope))


def named_in_scope(passage_ids: Iterable[str], scope: Scope) -> grpc.Filter:
    return grpc.Filter(must=[*_conditions(scope), _has_id(passage_ids)])


def tenant_filter(tenant: str) -> grpc.Filter:
    return grpc.Filter(must=[_keyword("tenant", tenant)])


def _conditions(scope: Scope) -> list[grpc.Condition]:
    conditions = [_keyword("tenant", scope.tenant)]
    if scope.collections:
        names = grpc.Match(keywords=grpc.RepeatedStrings(strings=scope.collections))
        conditions.append(_field(grpc.FieldCondition(key="collection", match=names)))
    return conditions if scope.filter is None else [*conditions, _nested(_translate(scope.filter))]


def _translate(clause: Filter) -> grpc.Filter:
    match clause:
        case Match():
            return _any([_equals(clause.field, value) for value in clause.values])
        case Range():
            bounds = grpc.Range(gte=clause.gte, lt=clause.lt)
            return grpc.Filter(must=[_field(grpc.FieldCondition(key=_path(clause.field), range=bounds))])
        case And():
            return grpc.Filter(must=[_nested(_translate(inner)) for inner in clause.clauses])
        case Or():
            return _any([_nested(_translate(inner)) for inner in clause.clauses])
        case Not():
            return grpc.Filter(must_not=[_nested(_translate(clause.clause))])


def _any(conditions: Sequence[grpc.Condition]) -> grpc.Filter:
    """An empty `should` would accept everything; nothing of nothing is nothing."""
    return grpc.Filter(should=conditions) if conditions else grpc.Filter(must=[_has_id(())])


def _equals(field: str, value: Scalar) -> grpc.Condition:
    path = _path(field)
    if isinstance(value, bool):
        return _keyword(path.replace("metadata", TRUTHS, 1), str(value))
    if isinstance(value, str):
        return _keyword(path, value)
    if isinstance(value, int) and abs(value) > _EXACT_INTEGERS:
        return _field(grpc.FieldCondition(key=path, match=grpc.Match(integer=value)))
    return _field(grpc.FieldCondition(key=path, range=grpc.Range(gte=value, lte=value)))


def _keyword(path: str, value: str) -> grpc.Condition:
    return _field(grpc.FieldCondition(key=path, match=grpc.Match(keyword=value)))


def _has_id(passage_ids: Iterable[str]) -> grpc.Condition:
    ids = [grpc.PointId(uuid=passage_id) for passage_id in passage_ids]
    return grpc.Condition(has_id=grpc.HasIdCondition(has_id=ids))


def _field(condition: grpc.FieldCondition) -> grpc.Condition:
    return grpc.Condition(field=condition)


def _nested(inner: grpc.Filter) -> grpc.Condition:
    return grpc.Condition(filter=inner)


def _path(field: str) -> str:
    key = metadata_key(field)
    return field if key is None else f'metadata."{key}"'
