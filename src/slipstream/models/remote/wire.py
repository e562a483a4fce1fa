"""What goes over the wire: a generation as a request body, and a chunk of the answer as a noun."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json, to_json

from slipstream.call import Call
from slipstream.models.remote.faults import cut_short, event_fault, garbled
from slipstream.models.remote.kinds import CACHED_TOKENS, FAILURE_REASONS, FINISH_REASONS, Kind
from slipstream.types import FinishReason, Message, Sampling, Usage

DONE = b"[DONE]"
_SALT = b"slipstream prefix cache\0"


@dataclass(frozen=True, slots=True)
class Chunk:
    """One event of an answer."""

    text: str
    alive: bool
    """The model has begun: text, or thoughts that are not shown."""
    finish_reason: FinishReason | None = None
    usage: Usage | None = None


def request_body(
    messages: Sequence[Message],
    sampling: Sampling,
    call: Call,
    *,
    kind: Kind,
    model: str,
    affinity: str,
    salted: bool,
    extra: Mapping[str, Any],
) -> bytes:
    """JSON. A value that is the default everywhere is not sent, since some server refuses it."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": message.role, "content": message.text} for message in messages],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": sampling.temperature,
        kind.max_tokens: sampling.max_tokens,
    }
    if sampling.top_p < 1:
        body["top_p"] = sampling.top_p
    if sampling.stop:
        body["stop"] = list(sampling.stop[: kind.max_stops])
    if sampling.seed is not None and kind.seed:
        body["seed"] = sampling.seed
    if sampling.presence_penalty:
        body["presence_penalty"] = sampling.presence_penalty
    if sampling.frequency_penalty:
        body["frequency_penalty"] = sampling.frequency_penalty
    if sampling.json_schema is not None and kind.schema != "none":
        body["response_format"] = _schema(kind, from_json(sampling.json_schema))
    if salted and kind.salt:
        body[kind.salt] = hashlib.sha256(_SALT + call.tenant.encode()).hexdigest()[:32]
    if affinity and kind.affinity:
        body[kind.affinity] = affinity
    remaining_s = call.deadline.remaining_s()
    if kind.deadline and remaining_s != float("inf"):
        body["slipstream"] = {"deadline_ms": max(100, int(1_000 * remaining_s))}
    return to_json(body | dict(extra))


def _schema(kind: Kind, schema: Any) -> dict[str, Any]:
    if kind.schema == "json_value":
        return {"type": "json", "value": schema}
    if kind.schema == "json_with_schema":
        return {"type": "json", "schema": schema}
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}


def read_chunk(data: bytes) -> Chunk:
    """Raises Fault for an error in the stream, and for what is no chunk of a chat completion."""
    try:
        event = from_json(data)
    except ValueError:
        raise garbled("an event that is not JSON") from None
    if not isinstance(event, dict):
        raise garbled("an event that is no chunk of a chat completion")
    if event.get("error"):
        raise event_fault(event["error"])
    choices = event.get("choices")
    usage = _usage(event) if event.get("usage") else None
    if not choices:
        if choices is None and usage is None:
            raise garbled("an event that is no chunk of a chat completion")
        return Chunk("", False, None, usage)
    try:
        choice = choices[0]
        delta = choice.get("delta") or {}
        text = delta.get("content") or ""
        alive = bool(text or delta.get("reasoning_content") or delta.get("reasoning") or delta.get("tool_calls"))
        reason = choice.get("finish_reason")
    except (AttributeError, LookupError, TypeError):
        raise garbled("a chunk of an unknown shape") from None
    if not isinstance(text, str):
        raise garbled("a chunk whose content is no text")
    return Chunk(text, alive, None if reason is None else _finish_reason(reason), usage)


def _finish_reason(reason: Any) -> FinishReason:
    if reason in FAILURE_REASONS:
        raise cut_short(f"gave up an answer ({reason})")
    return FINISH_REASONS.get(str(reason), "length")


def _usage(event: Mapping[str, Any]) -> Usage:
    usage = event["usage"]
    if not isinstance(usage, dict):
        raise garbled("a usage of an unknown shape")
    cached = next((count for path in CACHED_TOKENS if (count := _number(event, path)) is not None), 0)
    return Usage(
        prompt_tokens=_number(usage, ("prompt_tokens",)) or 0,
        completion_tokens=_number(usage, ("completion_tokens",)) or 0,
        cached_tokens=cached,
    )


def _number(found: Any, path: Sequence[str]) -> int | None:
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, int) else None
