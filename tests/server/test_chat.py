"""Chat completions on the wire: framing, order, headers, failures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from slipstream.call import Call
from slipstream.errors import Bug, DataError, DeadlineExceeded, Unavailable
from slipstream.server.app import create_app
from slipstream.server.fake import CITATION, PASSAGE, ScriptedService, answer_script
from slipstream.types import Event, Finished, Found, Query, Question, Token

pytestmark = pytest.mark.anyio

PATH = "/v1/chat/completions"


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "slipstream", "messages": [{"role": "user", "content": "天空是什么颜色？"}], **fields}


def events(text: str) -> list[Any]:
    """The data of each event; every event must be well framed."""
    assert text.endswith("\n\n")
    lines = text[:-2].split("\n\n")
    return [line if line == "data: [DONE]" else json.loads(line.removeprefix("data: ")) for line in lines]


async def test_without_a_stream_field_nothing_is_streamed(http: httpx.AsyncClient) -> None:
    for fields in ({}, {"stream": False}, {"stream": None}):
        response = await http.post(PATH, json=body(**fields))
        assert response.headers["content-type"] == "application/json"
        assert response.json()["object"] == "chat.completion"
        assert "retrieve;dur=" in response.headers["server-timing"]


async def test_evidence_comes_first_and_points_into_the_document(http: httpx.AsyncClient) -> None:
    response = await http.post(PATH, json=body(stream=True))
    assert response.headers["content-type"].startswith("text/event-stream")
    chunks = events(response.text)
    assert chunks[-1] == "data: [DONE]"
    first, last = chunks[0], chunks[-2]
    assert first["choices"] == [
        {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
    ]
    own = first["slipstream"]
    assert own["event"] == "evidence"
    citation = own["citations"][0]
    assert citation["sentence"] == {"text": "The sky is blue.", "start": 100, "end": 116}
    assert (citation["document"], citation["version"], citation["passage_id"]) == ("notes/weather.md", "v1", PASSAGE.id)
    assert (citation["start"], citation["end"], citation["text"]) == (100, 142, PASSAGE.text)
    assert [stage["name"] for stage in own["stages"]] == ["retrieve"]
    assert (last["choices"][0]["delta"], last["choices"][0]["finish_reason"]) == ({}, "stop")
    final = last["slipstream"]
    assert (final["event"], final["route"], final["model"], final["supported"]) == (
        "finished",
        "small",
        "scripted",
        True,
    )
    assert final["usage"]["prompt_tokens_details"] == {"cached_tokens": 5}
    assert final["degraded"] == []
    assert "slipstream" not in chunks[1]


async def test_streamed_text_equals_whole_text(http: httpx.AsyncClient, service: ScriptedService) -> None:
    words = ['"quoted"\n', "反斜杠\\", "\u2028", "🙂", "\x00\x1b", "data: [DONE]\n\n"]
    service.script = answer_script(words)
    whole = (await http.post(PATH, json=body())).json()["choices"][0]["message"]["content"]
    streamed = events((await http.post(PATH, json=body(stream=True))).text)[1:-1]
    assert whole == "".join(words) == "".join(c["choices"][0]["delta"].get("content", "") for c in streamed)


async def test_usage_is_null_until_the_one_chunk_that_was_asked_for(http: httpx.AsyncClient) -> None:
    response = await http.post(PATH, json=body(stream=True, stream_options={"include_usage": True}))
    *chunks, usage = events(response.text)[:-1]
    assert all(chunk["usage"] is None for chunk in chunks)
    assert (usage["choices"], usage["usage"]["completion_tokens"]) == ([], 4)
    plain = events((await http.post(PATH, json=body(stream=True))).text)[:-1]
    assert not any("usage" in chunk for chunk in plain)


async def test_tokens_that_wait_share_a_write_and_none_is_held_back(service: ScriptedService) -> None:
    gate = asyncio.Event()

    async def script(question: Question, call: Call) -> AsyncIterator[Event]:
        yield Found(Query("q", "en"), (CITATION,))
        yield (Token("a"),)
        await gate.wait()
        async for event in answer_script(["b", "c"])(question, call):
            if not isinstance(event, Found):
                yield event

    service.script = script
    writes: list[bytes] = []

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            writes.append(message["body"])
            if b'"a"' in message["body"]:
                gate.set()

    await call_asgi(service, body(stream=True), send)
    assert [write.count(b"data: ") for write in writes] == [2, 4]


async def call_asgi(service: ScriptedService, request: dict[str, Any], send: Any) -> None:
    data = json.dumps(request).encode()
    messages: asyncio.Queue[Any] = asyncio.Queue()
    messages.put_nowait({"type": "http.request", "body": data[:10], "more_body": True})
    messages.put_nowait({"type": "http.request", "body": data[10:], "more_body": False})
    scope = {
        "type": "http",
        "method": "POST",
        "path": PATH,
        "root_path": "",
        "query_string": b"",
        "headers": [(b"host", b"localhost")],
    }
    await create_app(service)(scope, messages.get, send)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (Unavailable("The encoder is down.", retry_after_s=7), 503, "unavailable"),
        (DeadlineExceeded("Too late."), 504, "deadline_exceeded"),
        (DataError("Broken."), 422, "unusable_data"),
        (Bug("secret detail"), 500, "internal_error"),
        (RuntimeError("secret detail"), 500, "internal_error"),
    ],
)
async def test_a_failure_before_the_first_byte_is_a_status(
    http: httpx.AsyncClient, service: ScriptedService, error: Exception, status: int, code: str, stream: bool
) -> None:
    async def fail(question: Question, call: Call) -> AsyncIterator[Event]:
        await asyncio.sleep(0)
        raise error
        yield

    service.script = fail
    response = await http.post(PATH, json=body(stream=stream), headers={"X-Request-Id": "mine-1"})
    shown = response.json()["error"]
    assert (response.status_code, shown["code"], shown["request_id"]) == (status, code, "mine-1")
    assert response.headers["x-request-id"] == "mine-1"
    assert response.headers.get("retry-after") == ("7" if status == 503 else None)
    assert "secret" not in response.text


async def test_a_failure_after_it_is_an_error_event_and_the_end(
    http: httpx.AsyncClient, service: ScriptedService
) -> None:
    async def break_off(question: Question, call: Call) -> AsyncIterator[Event]:
        yield (Token("Half"),)
        await asyncio.sleep(0)
        raise RuntimeError("secret detail")

    service.script = break_off
    response = await http.post(PATH, json=body(stream=True))
    assert response.status_code == 200
    assert "event: error\ndata: " in response.text
    assert not {"[DONE]", '"stop"', "secret"} & set(response.text.split())
    assert json.loads(response.text.rsplit("data: ", 1)[1])["error"]["code"] == "internal_error"
    assert b'status="500"' in service.metrics.render()


@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_that_ends_without_its_end_is_a_failure(
    http: httpx.AsyncClient, service: ScriptedService, stream: bool
) -> None:
    async def cut_short(question: Question, call: Call) -> AsyncIterator[Event]:
        async for event in answer_script()(question, call):
            if not isinstance(event, Finished):
                yield event

    service.script = cut_short
    response = await http.post(PATH, json=body(stream=stream))
    assert response.status_code == 500


async def test_the_deadline_comes_from_the_body_or_the_header(
    http: httpx.AsyncClient, service: ScriptedService
) -> None:
    await http.post(PATH, json=body(slipstream={"deadline_ms": 50_000}))
    await http.post(PATH, json=body(slipstream={"deadline_ms": 50_000}), headers={"X-Slipstream-Deadline-Ms": "3000"})
    await http.post(PATH, json=body())
    remaining = [call.deadline.remaining_s() for call in service.calls]
    assert 40 < remaining[0] <= 50
    assert 2 < remaining[1] <= 3
    assert 50 < remaining[2] <= 60
    wrong = await http.post(PATH, json=body(), headers={"X-Slipstream-Deadline-Ms": "soon"})
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "X-Slipstream-Deadline-Ms")


async def test_a_wrong_type_names_the_field(http: httpx.AsyncClient) -> None:
    response = await http.post(PATH, json=body(temperature="warm"))
    error = response.json()["error"]
    assert response.status_code == 400
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", "temperature", "invalid_type")


async def test_a_tenant_without_data_gets_its_answer(http: httpx.AsyncClient, service: ScriptedService) -> None:
    async def nothing(question: Question, call: Call) -> AsyncIterator[Event]:
        async for event in answer_script(["That is not in the documents."])(question, call):
            yield Found(Query(question.text, "en"), ()) if isinstance(event, Found) else event

    service.script = nothing
    first = events((await http.post(PATH, json=body(stream=True, slipstream={"tenant": "new"}))).text)[0]
    assert first["slipstream"]["citations"] == []
    assert service.questions[0].scope.tenant == "new"
