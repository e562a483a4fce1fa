"""What servers of different families are sent, and what is read of what they send."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slipstream.call import Call, Deadline
from slipstream.errors import InvalidRequest, Overloaded, Unavailable
from slipstream.models.remote.faults import Fault, retry_after_s, status_fault
from slipstream.models.remote.kinds import KINDS
from slipstream.models.remote.wire import Chunk, read_chunk, request_body
from slipstream.settings import EngineKind
from slipstream.types import Message, Sampling, Usage

SCHEMA = {"type": "object", "properties": {"days": {"type": "integer"}}}


def body(kind: EngineKind, sampling: Sampling | None = None, affinity: str = "") -> dict[str, Any]:
    call = Call("acme", Deadline.after(9, lambda: 0.0))
    sent = request_body(
        (Message("user", "hi"),),
        sampling or Sampling(),
        call,
        kind=KINDS[kind],
        model="m",
        affinity=affinity,
        salted=True,
        extra={},
    )
    return dict(json.loads(sent))


def test_nothing_is_sent_that_some_server_refuses_by_default() -> None:
    for kind in KINDS:
        assert body(kind).keys() <= {
            *("model", "messages", "stream", "stream_options", "temperature"),
            *("max_tokens", "max_completion_tokens", "cache_salt", "slipstream"),
        }
    assert "cache_salt" not in body("trtllm")
    assert body("openai")["max_completion_tokens"] == 256


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        ("vllm", {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}),
        ("tgi", {"type": "json", "value": SCHEMA}),
        ("trtllm", {"type": "json", "schema": SCHEMA}),
    ],
)
def test_a_schema_in_the_form_of_each(kind: EngineKind, form: dict[str, Any]) -> None:
    assert body(kind, Sampling(json_schema=json.dumps(SCHEMA)))["response_format"] == form


def test_what_only_some_take() -> None:
    sampling = Sampling(stop=("a", "b", "c", "d", "e"), seed=1)
    assert body("tgi", sampling)["stop"] == ["a", "b", "c", "d"]
    assert len(body("vllm", sampling)["stop"]) == 5
    assert "seed" not in body("other", sampling)
    assert body("openai", affinity="ab")["prompt_cache_key"] == "ab"
    assert body("slipstream")["slipstream"] == {"deadline_ms": 9_000}


def chunk(**choice: Any) -> bytes:
    return json.dumps({"choices": [choice]}).encode()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (chunk(delta={"content": "天"}), Chunk("天", True)),
        (chunk(delta={"role": "assistant", "content": ""}), Chunk("", False)),
        (chunk(delta={"content": None, "reasoning_content": "hm"}), Chunk("", True)),
        (chunk(delta={}, finish_reason="eos_token"), Chunk("", False, "stop")),
        (chunk(finish_reason="function_call"), Chunk("", False, "tool_calls")),
        (chunk(delta={}, finish_reason="a new one"), Chunk("", False, "length")),
        (b'{"choices":[],"usage":null}', Chunk("", False)),
    ],
)
def test_chunks(data: bytes, expected: Chunk) -> None:
    assert read_chunk(data) == expected


@pytest.mark.parametrize(
    "fields",
    [
        {"usage": {"prompt_tokens_details": {"cached_tokens": 5}}},
        {"usage": {"prompt_tokens_details": None, "cached_tokens": 5}},
        {"usage": {"prompt_cache_hit_tokens": 5}},
        {"usage": {"cache_read_input_tokens": 5}},
        {"timings": {"cache_n": 5}},
    ],
)
def test_cached_tokens_wherever_they_stand(fields: dict[str, Any]) -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 2, **fields.get("usage", {})}
    data = json.dumps({"choices": [], **fields, "usage": usage}).encode()
    assert read_chunk(data).usage == Usage(9, 2, 5)


@pytest.mark.parametrize(
    "data",
    [
        *(b"{", b"[]", b"7", b'{"object":"pong"}', b'{"choices":[3]}', b'{"choices":{"a":1}}'),
        *(b'{"choices":[{"delta":{"content":["a"]}}]}', b'{"choices":[],"usage":4}', b'{"error":"out of memory"}'),
        b'{"choices":[{"delta":{},"finish_reason":"abort"}]}',
    ],
)
def test_what_is_no_chunk_is_a_fault(data: bytes) -> None:
    with pytest.raises(Fault) as caught:
        read_chunk(data)
    assert isinstance(caught.value.error, Unavailable)


@pytest.mark.parametrize(
    "said",
    [
        '{"error":{"message":"This model\'s maximum context length is 4096 tokens."}}',
        '{"error":{"code":400,"type":"exceed_context_size_error","message":"exceeds the available context size"}}',
        '{"error":"`inputs` tokens + `max_new_tokens` must be <= max_total_tokens","error_type":"validation"}',
        '{"object":"error","message":"maximum context length exceeded","code":400}',
    ],
)
def test_a_prompt_that_is_too_long_in_every_dialect(said: str) -> None:
    fault = status_fault(422, {}, said.encode())
    assert isinstance(fault.error, InvalidRequest)
    assert fault.error.code == "context_length_exceeded"
    assert not fault.elsewhere


def test_a_key_that_is_refused_is_not_repeated() -> None:
    fault = status_fault(401, {}, b'{"error":{"message":"Incorrect API key provided: sk-123"}}')
    assert "sk-123" not in fault.error.message
    assert fault.certain


@pytest.mark.parametrize(
    ("header", "seconds"),
    [(None, 1.0), ("7", 7.0), ("0.5", 0.5), ("-3", 0.0), ("soon", 1.0), ("nan", 1.0), ("1e9", 3_600.0)],
)
def test_retry_after(header: str | None, seconds: float) -> None:
    assert retry_after_s(header) == seconds
    busy = status_fault(429, {"retry-after": header} if header else {}, b"")
    assert isinstance(busy.error, Overloaded)
    assert busy.retry_after_s == seconds


def test_retry_after_as_a_date_in_the_past() -> None:
    assert retry_after_s("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
