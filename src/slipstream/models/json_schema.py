"""Which JSON schemas the local engine is given: those its grammar compiler is known to take."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from slipstream.errors import InvalidRequest

_TYPES = {"object", "array", "string", "number", "integer", "boolean", "null"}
_NOTES = {"title", "description", "$schema", "$id", "examples", "default", "strict"}
_KEYS = {"type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf"} | _NOTES
_UNSPEAKABLE = re.compile(r"[\"\\\x00-\x1f\x7f]")
"""The engine's compiler does not escape these in property names."""
_DEEPEST = 16
_LONGEST = 32_768


def check_schema(text: str) -> str:
    """Returns the schema as compact JSON.

    A schema that the engine's compiler refuses ends every running generation with it, so only this
    subset passes: types, properties, required, additionalProperties (true or false), items, enum, const, anyOf.
    Raises InvalidRequest naming what is not in it.
    """
    if len(text) > _LONGEST:
        raise _wrong(f"is longer than {_LONGEST} characters")
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _wrong(f"is not JSON: {error}") from None
    _check(schema, "the schema", 0)
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


def _check(schema: Any, where: str, depth: int) -> None:
    if not isinstance(schema, dict):
        raise _wrong(f"{where} is not an object")
    if depth > _DEEPEST:
        raise _wrong(f"is nested deeper than {_DEEPEST}")
    if unknown := sorted(set(schema) - _KEYS):
        raise _wrong(f"{where} uses {', '.join(unknown)}, which the local model does not support")
    kinds = [key for key in ("type", "enum", "const", "anyOf") if key in schema]
    if len(kinds) != 1 and kinds not in (["type", "enum"], ["type", "const"]):
        raise _wrong(f"{where} needs one of type, enum, const or anyOf")
    if "type" in schema and not (isinstance(schema["type"], str) and schema["type"] in _TYPES):
        raise _wrong(f"{where} has the type {schema['type']!r}; it is one of {', '.join(sorted(_TYPES))}")
    if "enum" in schema and not (isinstance(schema["enum"], list) and schema["enum"]):
        raise _wrong(f"{where} has an enum that is no list of values")
    _check_object(schema, where, depth)
    if "items" in schema:
        _check(schema["items"], f"{where}.items", depth + 1)
    if "anyOf" in schema:
        if not (isinstance(schema["anyOf"], list) and schema["anyOf"]):
            raise _wrong(f"{where} has an anyOf that is no list of schemas")
        for choice in schema["anyOf"]:
            _check(choice, f"{where}.anyOf", depth + 1)


def _check_object(schema: Mapping[str, Any], where: str, depth: int) -> None:
    properties = schema.get("properties", {})
    required = schema.get("required", [])
    if not isinstance(properties, dict):
        raise _wrong(f"{where} has properties that are no object")
    if not isinstance(schema.get("additionalProperties", False), bool):
        raise _wrong(f"{where} has additionalProperties that are neither true nor false")
    if not (isinstance(required, list) and all(isinstance(name, str) and name in properties for name in required)):
        raise _wrong(f"{where} requires properties that it does not define")
    for name, inner in properties.items():
        if _UNSPEAKABLE.search(name):
            raise _wrong(f"{where} has a property name with a quote, backslash or control character: {name!r}")
        _check(inner, f"{where}.{name}", depth + 1)


def _wrong(what: str) -> InvalidRequest:
    return InvalidRequest(f"The JSON schema of response_format cannot be used: {what}.", param="response_format")
