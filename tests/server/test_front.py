"""What holds for every path: probes, error shapes, limits, who may come in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from slipstream.runtime.warmup import Readiness
from slipstream.server.app import create_app
from slipstream.server.exchange import JSON_LIMIT_BYTES
from slipstream.server.fake import ScriptedService, answer_script
from slipstream.settings import ApiKey, ServerSettings, Settings

pytestmark = pytest.mark.anyio

CHAT = "/v1/chat/completions"
BODY = {"messages": [{"role": "user", "content": "Why?"}]}


async def test_probes_and_metrics(http: httpx.AsyncClient) -> None:
    assert (await http.get("/healthz")).json() == {"status": "ok"}
    assert (await http.get("/readyz")).status_code == 200
    metrics = await http.get("/metrics")
    assert 'slipstream_requests_total{method="GET",route="/healthz",status="200"} 1.0' in metrics.text
    assert (await http.head("/healthz")).status_code == 200


async def test_until_ready_requests_are_put_off(http: httpx.AsyncClient, service: ScriptedService) -> None:
    service.readiness = Readiness()
    service.readiness.warming("the encoder")
    for response in (await http.get("/readyz"), await http.post(CHAT, json=BODY)):
        assert response.status_code == 503
        assert response.headers["retry-after"]
        assert "the encoder" in response.json()["error"]["message"]
    assert (await http.get("/healthz")).status_code == 200
    assert (await http.get("/v1/models")).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "unknown_path"),
        ("GET", "/v1/chat/completions/", 404, "unknown_path"),
        ("GET", CHAT, 405, "method_not_allowed"),
        ("OPTIONS", CHAT, 405, "method_not_allowed"),
        ("DELETE", "/v1/documents", 405, "method_not_allowed"),
    ],
)
async def test_wrong_paths_and_methods_have_the_same_shape(
    http: httpx.AsyncClient, method: str, path: str, status: int, code: str
) -> None:
    response = await http.request(method, path)
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["type"]) == (status, code, "invalid_request_error")
    assert error["request_id"] == response.headers["x-request-id"]
    assert ("allow" in response.headers) == (status == 405)
    assert "access-control-allow-origin" not in response.headers


async def test_bodies_that_are_no_json(http: httpx.AsyncClient) -> None:
    for content in (b"", b"{", b"[1]", b'{"messages": NaN}', b"\xff\xfe"):
        assert (await http.post(CHAT, content=content)).status_code == 400
    form = await http.post(CHAT, data={"messages": "hello"})
    assert (form.status_code, form.json()["error"]["code"]) == (415, "unsupported_media_type")


async def test_a_body_over_the_limit_is_refused_unread(http: httpx.AsyncClient, served: Any) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(JSON_LIMIT_BYTES // 65_536 + 1):
            yield b" " * 65_536

    response = await http.post(CHAT, content=pieces(), headers={"content-type": "application/json"})
    assert (response.status_code, response.json()["error"]["code"]) == (413, "too_large")
    reader, writer = await asyncio.open_connection(served.host, served.port)
    writer.write(f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999\r\n\r\n".encode())
    assert (await reader.read()).startswith(b"HTTP/1.1 413")
    writer.close()


async def test_a_request_id_that_could_break_a_log_is_replaced(http: httpx.AsyncClient) -> None:
    response = await http.get("/healthz", headers={"X-Request-Id": "a b\tc"})
    assert response.headers["x-request-id"].startswith("req_")


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("host", "localhost", 200),
        ("host", "127.0.0.1:8321", 200),
        ("host", "[::1]:8321", 200),
        ("host", "evil.example", 403),
        ("host", "localhost.evil.example:8321", 403),
        ("host", "[", 403),
        ("origin", "http://localhost:3000", 200),
        ("origin", "https://evil.example", 403),
        ("origin", "null", 403),
    ],
)
async def test_without_keys_only_this_machine_is_served(
    http: httpx.AsyncClient, header: str, value: str, status: int
) -> None:
    assert (await http.get("/v1/models", headers={header: value})).status_code == status
    assert (await http.get("/healthz", headers={header: value})).status_code == 200


async def test_a_key_is_bound_to_its_tenant() -> None:
    keys = (ApiKey(key=SecretStr("sesame-a"), tenant="a"), ApiKey(key=SecretStr("sesame-b"), tenant="b"))
    service = ScriptedService(Settings(server=ServerSettings(api_keys=keys)))
    service.readiness.warmed()
    transport = httpx.ASGITransport(create_app(service))
    async with httpx.AsyncClient(transport=transport, base_url="http://rag.example") as http:
        for headers in ({}, {"Authorization": "Bearer nope"}, {"Authorization": "Basic sesame-a"}):
            refused = await http.post(CHAT, json=BODY, headers=headers)
            assert (refused.status_code, refused.json()["error"]["type"]) == (401, "authentication_error")
            assert refused.headers["www-authenticate"] == "Bearer"
        assert (await http.get("/metrics")).status_code == 401
        assert (await http.get("/healthz")).status_code == 200
        mine = {"Authorization": "Bearer sesame-b"}
        assert (await http.post(CHAT, json=BODY, headers=mine)).status_code == 200
        assert service.calls[-1].tenant == "b"
        other = await http.post(CHAT, json={**BODY, "slipstream": {"tenant": "a"}}, headers=mine)
        assert (other.status_code, other.json()["error"]["code"]) == (403, "forbidden")
        assert (await http.get("/v1/documents", params={"tenant": "a"}, headers=mine)).status_code == 403


async def test_shutting_down_refuses_the_new_and_finishes_the_running(served: Any, service: ScriptedService) -> None:
    running, release = asyncio.Event(), asyncio.Event()
    plain = answer_script()

    async def slow(question: Any, call: Any) -> AsyncIterator[Any]:
        async for event in plain(question, call):
            yield event
            running.set()
            await release.wait()

    service.script = slow
    async with httpx.AsyncClient(base_url=served.url) as http:
        idle_reader, idle = await asyncio.open_connection(served.host, served.port)
        answer = asyncio.create_task(http.post(CHAT, json={**BODY, "stream": True}))
        await running.wait()
        served.server.should_exit = True
        assert await idle_reader.read() == b""
        idle.close()
        release.set()
        assert "[DONE]" in (await answer).text
    await served.finished
    assert (service.started, service.stopped) == (1, 1)


async def test_once_stopping_new_requests_get_a_503(service: ScriptedService) -> None:
    app = create_app(service)
    app.stop_admitting()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as http:
        refused = await http.post(CHAT, json=BODY)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert json.loads(refused.text)["error"]["type"] == "server_error"


async def test_a_service_that_cannot_start_ends_the_server(service: ScriptedService) -> None:
    class Broken(ScriptedService):
        async def start(self) -> None:
            raise OSError("no model")

    app = create_app(Broken(service.settings))
    failed = asyncio.Event()
    app.lifespan.on_failure = failed.set
    async with app.lifespan(app):
        await failed.wait()
    assert isinstance(app.lifespan.failure, OSError)
