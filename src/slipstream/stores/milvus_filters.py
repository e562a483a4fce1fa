"""Scope and Filter → Milvus boolean expressions in which every value is a quoted literal.

Servers before 2.5 know no template parameters, so one way of writing serves all: strings are escaped as the
expression grammar's string literals, numbers are written by Python, and names come from a fixed set or are quoted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence

from slipstream.stores.fields import metadata_key
from slipstream.types import And, Filter, Match, Not, Or, Range, Scalar, Scope

ALWAYS = 'id != ""'
NEVER = 'id == ""'
NO_PAGE = -(2**62)
"""Stands for a page that is not known: servers before 2.5 have no null."""
TRUTHS = "truths"
"""Field of the metadata's booleans: Milvus Lite takes true for 1."""

_TEXT_FIELDS = frozenset(("collection", "document_id", "version", "title", "source", "type", "language"))
_INT_FIELDS = frozenset(("position", "page"))
_INT64 = range(-(2**63) + 1, 2**63)
"""The least one has no literal: the grammar reads its sign apart."""

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_UNSAFE = re.compile(r'["\\\x00-\x1f\x7f-\x9f\u2028\u2029]')


def scope_expression(scope: Scope) -> str:
    clauses = [f"tenant == {quoted(scope.tenant)}" if _is_unicode(scope.tenant) else NEVER]
    if scope.collections:
        clauses.append(_texts("collection", scope.collections))
    if scope.filter is not None:
        clauses.append(_translate(scope.filter, scope.tenant))
    return _all(clauses)


def named_in_scope(passage_ids: Sequence[str], scope: Scope) -> str:
    return _all([scope_expression(scope), f"id in {listed(passage_ids)}"])


def listed(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(quoted, texts))}]"


def quoted(text: str) -> str:
    return f'"{_UNSAFE.sub(_escape, text)}"'


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    return _ESCAPES.get(character) or f"\\u{ord(character):04x}"


def _translate(clause: Filter, tenant: str) -> str:
    match clause:
        case Match():
            return _match(clause, tenant)
        case Range():
            return _range(clause)
        case And():
            return _all([_translate(inner, tenant) for inner in clause.clauses])
        case Or():
            return _any([_translate(inner, tenant) for inner in clause.clauses])
        case Not():
            return f"not ({_translate(clause.clause, tenant)})"


def _match(clause: Match, tenant: str) -> str:
    name = clause.field
    if name == "tenant":  # decided here: a second condition on the partition key is what servers prune wrongly
        return ALWAYS if tenant in clause.values else NEVER
    if name in _TEXT_FIELDS:
        return _texts(name, [value for value in clause.values if isinstance(value, str)])
    numbers = [value for value in clause.values if not isinstance(value, str | bool)]
    if name in _INT_FIELDS:
        whole = [int(n) for n in numbers if math.isfinite(n) and n == int(n) and int(n) in _INT64 and n != NO_PAGE]
        return f"{name} in {sorted(set(whole))}" if whole else NEVER
    if name == "time":
        return _any([f"time == {float(n)!r}" for n in numbers if _is_float(n)])
    asked = {truths: [_literal(v) for v in clause.values if isinstance(v, bool) is truths] for truths in (False, True)}
    leaves = [_metadata(name, [f"== {v}" for v in values if v], _any, truths=t) for t, values in asked.items()]
    return _any([leaf for leaf in leaves if leaf != NEVER])


def _range(clause: Range) -> str:
    name, gte, lt = clause.field, clause.gte, clause.lt
    if name == "tenant" or name in _TEXT_FIELDS or any(bound is not None and math.isnan(bound) for bound in (gte, lt)):
        return NEVER
    if gte == math.inf or lt == -math.inf:
        return NEVER
    gte, lt = (None if bound is None or math.isinf(bound) else bound for bound in (gte, lt))
    if name in _INT_FIELDS:
        return _int_range(name, gte, lt)
    bounds = [f">= {float(gte)!r}"] if gte is not None else []
    bounds += [f"< {float(lt)!r}"] if lt is not None else []
    if name == "time":
        return _all([f"time {bound}" for bound in bounds])
    if not bounds:  # open at both ends, it still asks for a number
        bounds = [f">= {-1.7e308!r}"]
    return _metadata(name, bounds, _all)


def _int_range(name: str, gte: float | None, lt: float | None) -> str:
    """x ≥ 2.5 is x ≥ 3 and x < 2.5 is x < 3 for whole numbers, which is all the grammar compares them with."""
    bounds = [f"{name} > {NO_PAGE}"]
    if gte is not None:
        bounds.append(f"{name} >= {math.ceil(gte)}" if math.ceil(gte) in _INT64 else (NEVER if gte > 0 else ALWAYS))
    if lt is not None:
        bounds.append(f"{name} < {math.ceil(lt)}" if math.ceil(lt) in _INT64 else (NEVER if lt < 0 else ALWAYS))
    return _all(bounds)


def _metadata(name: str, conditions: list[str], joined: Callable[[Sequence[str]], str], *, truths: bool = False) -> str:
    """`exists` makes what is asked of an absent key false in every version, and its negation true."""
    key = metadata_key(name)
    if key is None or not conditions or not _is_unicode(key):
        return NEVER
    path = f"{TRUTHS if truths else 'metadata'}[{quoted(key)}]"
    return _all([f"exists {path}", joined([f"{path} {condition}" for condition in conditions])])


def _texts(name: str, values: Sequence[str]) -> str:
    known = [value for value in dict.fromkeys(values) if _is_unicode(value)]
    return f"{name} in {listed(known)}" if known else NEVER


def _literal(value: Scalar) -> str | None:
    """None for what no stored value equals."""
    if isinstance(value, str):
        return quoted(value) if _is_unicode(value) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if value in _INT64 else None
    return repr(value) if math.isfinite(value) else None


def _is_float(number: float) -> bool:
    try:
        return math.isfinite(float(number))
    except OverflowError:
        return False


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _all(clauses: Sequence[str]) -> str:
    return " and ".join(f"({clause})" for clause in clauses) or ALWAYS


def _any(clauses: Sequence[str]) -> str:
    return f"({' or '.join(f'({clause})' for clause in clauses)})" if clauses else NEVER
