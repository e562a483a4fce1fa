"""What a request may say about its search reaches the question, and contradictions are refused by name."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from slipstream.server.fake import PASSAGE, ScriptedService
from slipstream.types import USUAL_SEARCH, SearchOptions

pytestmark = pytest.mark.anyio

OPTIONS = {
    "dense_weight": 0.5,
    "sparse_weight": 2.0,
    "rrf_k": 10,
    "dense_limit": 20,
    "sparse_limit": 30,
    "expand": "auto",
    "per_document": 2,
    "near_duplicate": 0.9,
    "neighbours": 1,
}


def chat(own: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "sky?"}], "slipstream": own}


async def test_a_search_says_how(http: httpx.AsyncClient, service: ScriptedService) -> None:
    body = {"query": "sky", "candidates": 80, **OPTIONS}
    assert (await http.post("/v1/search", json=body)).status_code == 200
    assert service.questions[0].search == SearchOptions(**OPTIONS)  # type: ignore[arg-type]
    assert service.questions[0].candidates == 80


async def test_a_chat_says_how(http: httpx.AsyncClient, service: ScriptedService) -> None:
    own = {"candidates": 0, "mode": "hybrid", **OPTIONS}
    assert (await http.post("/v1/chat/completions", json=chat(own))).status_code == 200
    assert service.questions[0].search == SearchOptions(**OPTIONS)  # type: ignore[arg-type]
    assert service.questions[0].candidates == 0


async def test_who_says_nothing_gets_the_usual(http: httpx.AsyncClient, service: ScriptedService) -> None:
    await http.post("/v1/chat/completions", json=chat({"tenant": "a"}))
    assert service.questions[0].search is USUAL_SEARCH
    await http.post("/v1/search", json={"query": "sky"})
    assert service.questions[1].search == SearchOptions(per_document=0)


@pytest.mark.parametrize(
    ("own", "param"),
    [
        ({"mode": "fuzzy"}, "mode"),
        ({"dense_weight": -1}, "dense_weight"),
        ({"dense_weight": "1"}, "dense_weight"),
        ({"rrf_k": 0}, "rrf_k"),
        ({"sparse_limit": 0}, "sparse_limit"),
        ({"dense_limit": 1_001}, "dense_limit"),
        ({"candidates": -1}, "candidates"),
        ({"expand": "yes"}, "expand"),
        ({"per_document": -1}, "per_document"),
        ({"near_duplicate": 0}, "near_duplicate"),
        ({"near_duplicate": 1.5}, "near_duplicate"),
        ({"neighbours": 6}, "neighbours"),
        ({"dense_weight": 0, "sparse_weight": 0}, "sparse_weight"),
        ({"mode": "dense", "sparse_weight": 1}, "sparse_weight"),
        ({"mode": "sparse", "dense_limit": 10}, "dense_limit"),
        ({"diversity": 1}, "diversity"),
    ],
)
async def test_a_fault_names_its_field(http: httpx.AsyncClient, own: dict[str, Any], param: str) -> None:
    response = await http.post("/v1/search", json={"query": "sky", **own})
    assert (response.status_code, response.json()["error"]["param"]) == (400, param)
    response = await http.post("/v1/chat/completions", json=chat(own))
    assert (response.status_code, response.json()["error"]["param"]) == (400, f"slipstream.{param}")


async def test_one_leg_may_be_weighed_away(http: httpx.AsyncClient) -> None:
    for own in ({"dense_weight": 0}, {"sparse_weight": 0}, {"mode": "dense", "dense_weight": 2}):
        assert (await http.post("/v1/search", json={"query": "sky", **own})).status_code == 200


async def test_explain_shows_every_step(http: httpx.AsyncClient) -> None:
    assert "explain" not in (await http.post("/v1/search", json={"query": "sky"})).json()
    explained = (await http.post("/v1/search", json={"query": "sky", "explain": True})).json()["explain"]
    hits = [{"rank": 1, "passage_id": PASSAGE.id, "score": 4.5}]
    assert explained["legs"] == [{"leg": "sparse", "query": "sky", "found": 1, "hits": hits}]
    assert [(i["rank"], i["dense_rank"], i["sparse_rank"]) for i in explained["fused"]] == [(1, 2, 1)]
    assert explained["reranked"] == [{"rank": 1, "passage_id": PASSAGE.id, "score": 0.75, "scorer": "maxsim"}]
    assert explained["collapsed"] == []
    assert explained["passages"][PASSAGE.id]["document"] == "notes/weather.md"
