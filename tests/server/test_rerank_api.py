"""Reranking over HTTP, in the shapes that Jina's and Cohere's clients send and read."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from slipstream.server.fake import ScriptedService

pytestmark = pytest.mark.anyio

QUERY = "blue sky"
TEXTS = ["grass is green", "the blue sky", "a blue car"]


async def test_results_come_best_first_with_their_places(http: httpx.AsyncClient) -> None:
    response = await http.post("/v1/rerank", json={"model": "", "query": QUERY, "documents": TEXTS})
    body = response.json()
    assert [(item["index"], item["relevance_score"]) for item in body["results"]] == [(1, 1.0), (2, 0.5), (0, 0.0)]
    assert all("document" not in item for item in body["results"])
    assert (body["model"], body["object"], body["usage"]["total_tokens"]) == ("scripted-encoder", "list", 9)
    assert body["id"] == response.headers["x-request-id"]
    assert body["slipstream"] == {"scorer": "maxsim", "degraded": []}


async def test_jina_asks_for_documents_back(http: httpx.AsyncClient) -> None:
    asked = {"query": QUERY, "documents": [{"text": t} for t in TEXTS], "top_n": 1, "return_documents": True}
    [item] = (await http.post("/v1/rerank", json=asked)).json()["results"]
    assert item == {"index": 1, "relevance_score": 1.0, "document": {"text": "the blue sky"}}
    asked["documents"] = TEXTS
    [item] = (await http.post("/v1/rerank", json=asked)).json()["results"]
    assert item["document"] == {"text": "the blue sky"}


async def test_cohere_v1_ranks_by_named_fields_and_returns_the_object(http: httpx.AsyncClient) -> None:
    documents = [{"title": "red", "body": "grass"}, {"title": "blue", "body": "sky", "id": 7}]
    asked = {"query": QUERY, "documents": documents, "rank_fields": ["title", "body"], "return_documents": True}
    body = (await http.post("/v1/rerank", json={**asked, "max_chunks_per_doc": 3})).json()
    assert [item["document"] for item in body["results"]] == documents[::-1]


async def test_cohere_v2_has_a_path_of_its_own(http: httpx.AsyncClient) -> None:
    asked = {"model": "scripted-encoder", "query": QUERY, "documents": TEXTS, "top_n": 9, "max_tokens_per_doc": 512}
    body = (await http.post("/v2/rerank", json=asked)).json()
    assert [item["index"] for item in body["results"]] == [1, 2, 0]
    assert body["meta"]["api_version"]["version"] == "2"


async def test_equal_scores_keep_the_order_given(http: httpx.AsyncClient) -> None:
    body = (await http.post("/v1/rerank", json={"query": "x", "documents": ["a", "b", "c"]})).json()
    assert [item["index"] for item in body["results"]] == [0, 1, 2]


async def test_the_tenant_and_the_deadline_are_the_callers(http: httpx.AsyncClient, service: ScriptedService) -> None:
    own = {"tenant": "acme", "deadline_ms": 900}
    await http.post("/v1/rerank", json={"query": QUERY, "documents": TEXTS, "slipstream": own})
    assert service.calls[-1].tenant == "acme"
    assert service.calls[-1].deadline.remaining_s() < 1.0


@pytest.mark.parametrize(
    ("change", "status", "param"),
    [
        ({"query": None}, 400, "query"),
        ({"query": " "}, 400, "query"),
        ({"documents": []}, 400, "documents"),
        ({"documents": "text"}, 400, "documents"),
        ({"documents": ["a"] * 1_001}, 400, "documents"),
        ({"documents": ["a", {"title": "b"}]}, 400, "documents[1]"),
        ({"documents": [{"text": 3}]}, 400, "documents[0]"),
        ({"documents": [{"text": "a"}], "rank_fields": ["title"]}, 400, "documents[0]"),
        ({"top_n": 0}, 400, "top_n"),
        ({"model": "rerank-v3.5"}, 404, "model"),
        ({"slipstream": {"tenant": "a b"}}, 400, "slipstream.tenant"),
        ({"slipstream": {"top": 1}}, 400, "slipstream.top"),
    ],
)
async def test_a_fault_names_its_field(
    http: httpx.AsyncClient, change: dict[str, Any], status: int, param: str
) -> None:
    response = await http.post("/v1/rerank", json={"query": QUERY, "documents": TEXTS, **change})
    assert (response.status_code, response.json()["error"]["param"]) == (status, param)
