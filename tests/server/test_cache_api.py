"""`/v1/cache`, `/v1/feedback` and the cache fields of a chat, on the wire."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from slipstream.cache.entry import Purge
from slipstream.server.app import create_app
from slipstream.server.fake import ScriptedService
from slipstream.settings import Settings

pytestmark = pytest.mark.anyio


@pytest.fixture
def service() -> ScriptedService:
    made = ScriptedService(Settings())
    made.readiness.warmed()
    return made


@pytest.fixture
async def http(service: ScriptedService) -> Any:
    transport = httpx.ASGITransport(create_app(service))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


async def test_figures(http: httpx.AsyncClient) -> None:
    body = (await http.get("/v1/cache")).json()
    assert body == {
        "object": "cache",
        "entries": 1,
        "bytes": 2_048,
        "oldest_at": 1_700_000_000.0,
        "hits": 3,
        "saved_s": 4.5,
    }


async def test_purging_names_what_to_drop(http: httpx.AsyncClient, service: ScriptedService) -> None:
    params = {"tenant": "acme", "document": "a.md", "collection": "docs"}
    assert (await http.delete("/v1/cache", params=params)).json() == {"object": "cache", "purged": 1}
    await http.delete("/v1/cache", params={"tag": "hr"})
    await http.delete("/v1/cache", params={"all": "true"})
    assert service.purged == [
        ("acme", Purge("a.md", "docs", None)),
        ("default", Purge(None, None, "hr")),
        ("default", Purge()),
    ]


@pytest.mark.parametrize("params", [{}, {"all": "yes"}, {"collection": "docs"}, {"all": "true", "colour": "red"}])
async def test_purging_nothing_in_particular_is_refused(
    http: httpx.AsyncClient, service: ScriptedService, params: dict[str, str]
) -> None:
    assert (await http.delete("/v1/cache", params=params)).status_code == 400
    assert service.purged == []


async def test_feedback(http: httpx.AsyncClient, service: ScriptedService) -> None:
    said = {"id": "chatcmpl-req_1", "rating": "bad", "comment": "错了", "tenant": "acme"}
    answer = await http.post("/v1/feedback", json=said)
    assert answer.json() == {"object": "feedback", "id": "chatcmpl-req_1", "evicted": True}
    assert service.feedbacks == [("acme", "req_1", "bad", "错了")]
    assert (await http.post("/v1/feedback", json={"id": "x", "rating": "meh"})).status_code == 400


@pytest.mark.parametrize(
    ("asked", "use"),
    [(None, "auto"), ("auto", "auto"), ("use", "auto"), ("refresh", "refresh"), ("off", "off"), ("bypass", "off")],
)
async def test_a_chat_says_how_to_use_the_cache(
    http: httpx.AsyncClient, service: ScriptedService, asked: str | None, use: str
) -> None:
    own: dict[str, Any] = {"cache_max_age_s": 60, "cache_tag": "hr"} | ({"cache": asked} if asked else {})
    body = {"messages": [{"role": "user", "content": "Why is the sky blue?"}], "slipstream": own}
    answer = (await http.post("/v1/chat/completions", json=body)).json()
    question = service.questions[-1]
    assert (question.cache, question.cache_max_age_s, question.cache_tag) == (use, 60, "hr")
    assert answer["slipstream"]["cache"] == {"status": "off", "level": None, "age_s": None, "verdicts": []}


async def test_a_wrong_use_is_named(http: httpx.AsyncClient) -> None:
    body = {"messages": [{"role": "user", "content": "Why?"}], "slipstream": {"cache": "sometimes"}}
    refused = await http.post("/v1/chat/completions", json=body)
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "slipstream.cache"
