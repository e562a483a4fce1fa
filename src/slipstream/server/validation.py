"""JSON, or parsed values → a pydantic model; the first fault is named as the API does: `messages[0].content`."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from slipstream.errors import InvalidRequest


class Request(BaseModel):
    """Base of request bodies: unknown fields are ignored, wrong types are not."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, allow_inf_nan=False)


class Extension(Request):
    """Base of objects that are ours alone: a misspelt field is a fault, not a silence."""

    model_config = ConfigDict(extra="forbid")


R = TypeVar("R", bound=BaseModel)


def parse(model: type[R], body: bytes | dict[str, Any]) -> R:
    """Raises InvalidRequest naming the field at fault."""
    try:
        return model.model_validate(body) if isinstance(body, dict) else model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if first["type"] == "json_invalid":
            raise InvalidRequest(f"The body is not valid JSON: {first['msg']}.", code="invalid_json") from None
        where = _path(first["loc"])
        message = f"{where}: {first['msg']}." if where else f"{first['msg']}."
        raise InvalidRequest(message, param=where or None, code=_code(first["type"])) from None


def _path(location: tuple[int | str, ...]) -> str:
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path


def _code(kind: str) -> str:
    if kind == "missing":
        return "missing_required_parameter"
    if kind == "extra_forbidden":
        return "unknown_parameter"
    return "invalid_type" if kind.endswith("_type") else "invalid_value"
