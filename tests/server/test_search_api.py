"""Search over HTTP."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from slipstream.server.fake import ScriptedService
from slipstream.types import Match

pytestmark = pytest.mark.anyio


async def test_search_shows_ranks_and_the_best_sentence(http: httpx.AsyncClient, service: ScriptedService) -> None:
    body = {"query": "sky", "tenant": "a", "collections": ["c"], "filters": {"type": "pdf"}, "limit": 3}
    found = (await http.post("/v1/search", json=body)).json()
    item = found["data"][0]
    assert (item["rank"], item["dense_rank"], item["sparse_rank"], item["scorer"]) == (1, 2, 1, "maxsim")
    assert item["sentence"] == {"text": "The sky is blue.", "start": 100, "end": 116, "score": 0.8}
    scope = service.questions[0].scope
    assert (scope.tenant, scope.collections, scope.filter) == ("a", ("c",), Match("type", ("pdf",)))
    assert service.questions[0].passages == 3


async def test_one_leg(http: httpx.AsyncClient) -> None:
    found = (await http.post("/v1/search", json={"query": "故乡", "mode": "sparse", "rerank": False})).json()
    assert (found["data"][0]["dense_rank"], found["data"][0]["scorer"]) == (None, "rrf")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "query"),
        ({"query": " "}, "query"),
        ({"query": "a\0"}, "query"),
        ({"query": "a", "mode": "fuzzy"}, "mode"),
        ({"query": "a", "limit": 0}, "limit"),
        ({"query": "a", "top_k": 3}, "top_k"),
        ({"query": "a", "filters": []}, "filters"),
        ({"query": "a", "tenant": "a b"}, "tenant"),
    ],
)
async def test_a_fault_names_its_field(http: httpx.AsyncClient, body: dict[str, Any], param: str) -> None:
    response = await http.post("/v1/search", json=body)
    assert (response.status_code, response.json()["error"]["param"]) == (400, param)
