"""Remote rerankers: every wire shape, and what becomes of slow, broken, busy and lying servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from models.faulty_reranker import Answer, FaultyReranker, fails, faulty_reranker, hangs_up, ranks, raw, replies
from pydantic import SecretStr

from slipstream.errors import ConfigError, InvalidRequest, Overloaded, Unavailable
from slipstream.models.rerank_http import HttpCrossEncoder
from slipstream.models.rerank_wire import SHAPES, endpoint
from slipstream.settings import CrossEncoderSettings, RerankApi

pytestmark = pytest.mark.anyio

PAIRS = [("q", "aaa"), ("q", "b"), ("q", "cc")]
SCORES = [0.003, 0.001, 0.002]
RESULTS = {"results": [{"index": i, "relevance_score": SCORES[i]} for i in (0, 2, 1)], "id": "x", "meta": {}}


def settings(**options: Any) -> CrossEncoderSettings:
    return CrossEncoderSettings(**{"timeout_ms": 5_000, "retries": 2, **options})


@asynccontextmanager
async def asking(
    *script: Answer, draw: float = 0.0, **options: Any
) -> AsyncIterator[tuple[HttpCrossEncoder, FaultyReranker]]:
    async with faulty_reranker(*script) as server:
        model = HttpCrossEncoder(server.url, settings(**options), draw=lambda: draw)
        try:
            yield model, server
        finally:
            await model.close()


@pytest.mark.parametrize(
    ("api", "path", "sent", "reply"),
    [
        ("tei", "/rerank", {"query", "texts", "raw_scores", "return_text", "truncate"}, None),
        ("infinity", "/rerank", {"model", "query", "documents", "top_n", "return_documents"}, RESULTS),
        ("jina", "/v1/rerank", {"model", "query", "documents", "top_n", "return_documents"}, RESULTS),
        ("cohere", "/v2/rerank", {"model", "query", "documents", "top_n"}, RESULTS),
        ("cohere-v1", "/v1/rerank", {"model", "query", "documents", "top_n", "return_documents"}, RESULTS),
        ("vllm", "/rerank", {"model", "query", "documents", "top_n"}, RESULTS),
        (
            "vllm-score",
            "/score",
            {"model", "text_1", "text_2"},
            {"object": "list", "data": [{"index": i, "object": "score", "score": SCORES[i]} for i in (2, 1, 0)]},
        ),
    ],
)
async def test_every_shape_comes_back_in_the_order_asked(api: RerankApi, path: str, sent: set[str], reply: Any) -> None:
    answer = ranks if reply is None else replies(reply)
    async with asking(answer, api=api, model="m", api_key=SecretStr("key-1")) as (model, server):
        assert await model.score(PAIRS) == SCORES
    [asked] = server.asked
    assert (asked.path, set(asked.body), asked.headers["authorization"]) == (path, sent, "Bearer key-1")
    assert asked.body.get("documents", asked.body.get("texts", asked.body.get("text_2"))) == ["aaa", "b", "cc"]
    assert asked.body.get("query", asked.body.get("text_1")) == "q"


async def test_pairs_of_several_queries_go_side_by_side() -> None:
    async with asking(ranks) as (model, server):
        assert await model.score([("q", "aaa"), ("r", "b"), ("q", "cc")]) == SCORES[:2] + SCORES[2:]
    assert sorted(asked.body["query"] for asked in server.asked) == ["q", "r"]


@pytest.mark.parametrize(
    "fault",
    [
        fails("503 Service Unavailable"),
        fails("429 Too Many Requests"),
        fails("429 Too Many Requests", "retry-after: 0"),
        fails("500 Internal Server Error"),
        hangs_up,
        raw("200 OK", b'{"results": [', "content-type: application/json"),
        raw("200 OK", b"[" * 100_000),
        raw("200 OK", b"\xff\xfe"),
        replies([{"index": 0, "score": 1.0}]),
        replies([{"index": 0, "score": 1.0}] * 3),
        replies([{"index": i, "score": "high"} for i in range(3)]),
        replies([{"index": i, "score": 10**400} for i in range(3)]),
        replies([{"index": i, "score": float("nan")} for i in range(3)]),
        replies([{"index": str(i), "score": 0.5} for i in range(3)]),
        replies([{"index": i - 1, "score": 0.5} for i in range(3)]),
        replies({"error": "overloaded"}),
        replies(None),
    ],
)
async def test_a_fault_that_may_pass_is_tried_again(fault: Answer) -> None:
    async with asking(fault, ranks) as (model, server):
        assert await model.score(PAIRS) == SCORES
        assert len(server.asked) == 2
    async with asking(fault, retries=1) as (model, server):
        with pytest.raises((Unavailable, Overloaded)):
            await model.score(PAIRS)
        assert len(server.asked) == 2


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden", "404 Not Found", "307 Temporary Redirect"])
async def test_a_wrong_configuration_is_said_at_once_and_at_the_start(status: str) -> None:
    async with asking(fails(status, "location: http://127.0.0.1:1/"), api_key=SecretStr("key-1")) as (model, server):
        with pytest.raises(ConfigError, match=r"cross_encoder\.api_key") as raised:
            await model.warm_up()
        assert "key-1" not in str(raised.value)
        assert len(server.asked) == 1


async def test_refused_pairs_are_the_callers_fault() -> None:
    async with asking(fails("422 Unprocessable Entity")) as (model, server):
        with pytest.raises(InvalidRequest):
            await model.score(PAIRS)
        assert len(server.asked) == 1
        with pytest.raises(ConfigError, match=r"cross_encoder\.api"):
            await model.warm_up()


@pytest.mark.parametrize(
    "begun",
    [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n[{"],
    ids=["silent", "head", "body"],
)
async def test_a_half_open_connection_ends_with_the_time_given(begun: bytes) -> None:
    async with asking(ranks, timeout_ms=100) as (model, server):
        server.script[:] = [server.hangs(begun)]
        began = asyncio.get_running_loop().time()
        with pytest.raises(Unavailable, match="100 ms"):
            await model.score(PAIRS)
        assert asyncio.get_running_loop().time() - began < 2.0, "not the sum of all retries"


async def test_a_server_that_drips_does_not_outlive_the_time_given() -> None:
    async def drips(asked: Any, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
        while not writer.is_closing():
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.01)

    async with asking(drips, timeout_ms=200) as (model, _):
        with pytest.raises(Unavailable, match="200 ms"):
            await model.score(PAIRS)


async def test_a_reply_without_end_is_cut() -> None:
    async with asking(raw("200 OK", b" " * (9 << 20)), retries=0) as (model, _):
        with pytest.raises(Unavailable, match="larger than 8 MiB"):
            await model.score(PAIRS)


async def test_a_pause_longer_than_the_time_left_ends_at_once_with_it() -> None:
    async with asking(fails("429 Too Many Requests", "retry-after: 60"), timeout_ms=5_000) as (model, server):
        began = asyncio.get_running_loop().time()
        with pytest.raises(Overloaded, match="answered 429"):
            await model.score(PAIRS)
        assert len(server.asked) == 1
        assert asyncio.get_running_loop().time() - began < 4.0


async def test_more_than_the_bound_at_once_is_refused() -> None:
    async with asking(ranks, max_concurrent=2) as (model, server):
        server.script[:] = [server.hangs()]
        waiting = [asyncio.create_task(model.score(PAIRS)) for _ in range(2)]
        await server.was_asked(2)
        with pytest.raises(Overloaded):
            await model.score(PAIRS)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        server.script[:] = [ranks]
        assert await model.score(PAIRS) == SCORES, "who left gave the place back"


async def test_a_server_that_is_not_there_is_no_reason_not_to_start(caplog: pytest.LogCaptureFixture) -> None:
    async with faulty_reranker(ranks) as server:
        url = server.url
    model = HttpCrossEncoder(url, settings(retries=0))
    await model.warm_up()
    assert "Starting without the cross-encoder" in caplog.text
    with pytest.raises(Unavailable, match="cannot be reached"):
        await model.score(PAIRS)
    await model.close()


@pytest.mark.parametrize(
    ("base", "api", "url"),
    [
        ("http://h:8080", "tei", "http://h:8080/rerank"),
        ("http://h:8080/", "tei", "http://h:8080/rerank"),
        ("http://h:8080/rerank", "tei", "http://h:8080/rerank"),
        ("https://h/prefix", "infinity", "https://h/prefix/rerank"),
        ("https://api.cohere.com", "cohere", "https://api.cohere.com/v2/rerank"),
        ("https://api.cohere.com/v2", "cohere", "https://api.cohere.com/v2/rerank"),
        ("https://api.jina.ai/v1", "jina", "https://api.jina.ai/v1/rerank"),
        ("https://api.jina.ai/v1/rerank", "jina", "https://api.jina.ai/v1/rerank"),
        ("http://h/v1", "vllm", "http://h/v1/rerank"),
    ],
)
def test_the_url_may_be_given_in_any_length(base: str, api: RerankApi, url: str) -> None:
    assert endpoint(base, SHAPES[api]) == url


async def test_neither_name_nor_settings_show_what_is_secret() -> None:
    model = HttpCrossEncoder("http://user:secret@h:1/x?key=secret", settings(api_key=SecretStr("secret")))
    assert model.name == "http://h:1/x"
    assert "secret" not in repr(model._settings)
    await model.close()
