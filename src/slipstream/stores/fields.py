"""How filters name what a passage carries: its own fields by name, its metadata by bare name or as `metadata.x`."""

from __future__ import annotations

from slipstream.errors import InvalidRequest
from slipstream.types import And, Filter, Match, Not, Or, Passage, Range, Scalar, Scope

OWN_FIELDS = frozenset(
    (
        "tenant",
        "collection",
        "document_id",
        "version",
        "position",
        "title",
        "source",
        "type",
        "time",
        "language",
        "page",
    )
)
"""Metadata of the same name is reached as `metadata.<name>`."""


def metadata_key(name: str) -> str | None:
    """The metadata key that a filter's field name means, or None for a field of the passage itself.

    Raises InvalidRequest for names that cannot be addressed.
    """
    if name in OWN_FIELDS:
        return None
    key = name.removeprefix("metadata.")
    if not key or '"' in key or "\\" in key:
        raise InvalidRequest(f"A filter cannot name the field {name!r}: give a passage field or a metadata key.")
    return key


def accepts(scope: Scope, passage: Passage) -> bool:
    """Whether a passage lies in the scope: the reference that adapters are tested against."""
    return (
        passage.tenant == scope.tenant
        and (not scope.collections or passage.collection in scope.collections)
        and (scope.filter is None or _matches(scope.filter, passage))
    )


def _matches(clause: Filter, passage: Passage) -> bool:
    match clause:
        case Match():
            value = _value(passage, clause.field)
            return any(_equal(value, wanted) for wanted in clause.values)
        case Range():
            return _within(_value(passage, clause.field), clause)
        case And():
            return all(_matches(inner, passage) for inner in clause.clauses)
        case Or():
            return any(_matches(inner, passage) for inner in clause.clauses)
        case Not():
            return not _matches(clause.clause, passage)


def _value(passage: Passage, name: str) -> Scalar | None:
    key = metadata_key(name)
    if key is not None:
        return passage.metadata.get(key)
    value: Scalar | None = getattr(passage, name)
    return value


def _equal(value: Scalar | None, wanted: Scalar) -> bool:
    """Numbers equal by value whatever their type; true and false are not numbers."""
    return value == wanted and isinstance(value, bool) == isinstance(wanted, bool)


def _within(value: Scalar | None, wanted: Range) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return (wanted.gte is None or value >= wanted.gte) and (wanted.lt is None or value < wanted.lt)
