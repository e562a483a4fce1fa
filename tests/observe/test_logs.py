"""Logs: one line a record, the request id on it, and no secrets."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import SecretStr

from slipstream.call import Call, Deadline
from slipstream.observe import logs
from slipstream.runtime.workers import Worker

log = logging.getLogger("slipstream.test")


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """A stream to configure logging on; the root logger is put back afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)


def records(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_auto_is_json_when_nobody_watches(stream: io.StringIO) -> None:
    logs.configure_logging(stream=stream)
    logs.event(log, logging.INFO, "Warmed up.", step="encoder", seconds=1.5)
    (record,) = records(stream)
    assert record["message"] == "Warmed up."
    assert record["step"] == "encoder"
    assert record["seconds"] == 1.5
    assert record["level"] == "info"
    assert "request_id" not in record


def test_text_is_one_line_and_chinese_stays_readable(stream: io.StringIO) -> None:
    logs.configure_logging("text", stream=stream)
    logs.event(log, logging.WARNING, "第一行\nsecond", file="报告 2024.pdf")
    assert len(stream.getvalue().splitlines()) == 1
    assert '第一行\\nsecond file="报告 2024.pdf"' in stream.getvalue()


@pytest.mark.anyio
async def test_the_request_id_follows_into_tasks_and_threads(stream: io.StringIO) -> None:
    logs.configure_logging("json", stream=stream)
    worker = Worker("test")

    async def request(name: str) -> None:
        with logs.request_id(name):
            await worker.run(log.info, "on a thread")
            log.info("in a task")

    await asyncio.gather(request("req_1"), request("req_2"))
    await worker.close()
    log.info("outside")
    ids = [record.get("request_id") for record in records(stream)]
    assert sorted(filter(None, ids)) == ["req_1", "req_1", "req_2", "req_2"]
    assert ids[-1] is None


SECRETS = [
    "Authorization: Bearer abc.def-123",
    "{'authorization': 'Bearer abc.def-123'}",
    '"api_key": "abc.def-123"',
    "OPENAI_API_KEY=abc.def-123",
    "x-api-key: abc.def-123",
    "got sk-abc-def-12345678 from the caller",
    "connecting to https://me:abc.def-123@host/v1",
    "proxy-authorization: Basic abc.def-123",
    "the key is abc.def-123",
]


@pytest.mark.parametrize("text", SECRETS)
@pytest.mark.parametrize("style", ["json", "text"])
def test_secrets_never_appear(stream: io.StringIO, style: logs.Format, text: str) -> None:
    logs.configure_logging(style, stream=stream, secrets=[SecretStr("abc.def-123")])
    log.info("In the message: %s", text)
    logs.event(log, logging.INFO, "in a field", header=text)
    try:
        int(text)
    except ValueError:
        log.exception("in a trace")
    assert "def-123" not in stream.getvalue()
    assert stream.getvalue().count(logs.REDACTED) >= 3


@pytest.mark.parametrize("text", SECRETS[:-1])
def test_what_looks_like_a_credential_is_blotted_out_unasked(text: str) -> None:
    assert "abc" not in logs.redact(text)


@pytest.mark.parametrize("text", ["42 tokens, a basic answer", "the secret garden", "task-based", "max_tokens=192"])
def test_ordinary_text_stays(text: str) -> None:
    assert logs.redact(text) == text


def test_the_access_line_says_where_the_time_went(stream: io.StringIO) -> None:
    logs.configure_logging("json", stream=stream)
    now = [0.0]
    call = Call("acme", Deadline(None), request_id="req_7", clock=lambda: now[0])
    with call.stage("retrieve", query="never the text"):
        now[0] = 0.0214
    call.mark("first_token")
    call.degrade("sparse_search")
    logs.access(call, method="POST", route="/v1/chat/completions", status=200, duration_s=1.25)
    (record,) = records(stream)
    assert record["message"] == "POST /v1/chat/completions"
    assert (record["status"], record["ms"], record["tenant"]) == (200, 1250.0, "acme")
    assert (record["retrieve_ms"], record["first_token_at_ms"]) == (21.4, 21.4)
    assert record["degraded"] == "sparse_search"
    assert record["request_id"] == "req_7"
    assert "never the text" not in stream.getvalue()
