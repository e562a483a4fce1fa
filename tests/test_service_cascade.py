"""The whole program with a cross-encoder: a fake one, a tiny real one, and a remote one that is not there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from models.faulty_reranker import faulty_reranker, ranks, raw
from models.tiny_cross_encoder import Graph, random_weights, write_cross_encoder

from slipstream.build import CASCADE_CANDIDATES, build
from slipstream.errors import ConfigError, NotFound, TryAgain
from slipstream.server.app import create_app
from slipstream.service import Slipstream
from slipstream.settings import CrossEncoderSettings, DataSettings, ModelsSettings, RetrievalSettings, Settings
from slipstream.types import Question, Scope

pytestmark = pytest.mark.anyio

QUESTION = "How many days of leave has an employee?"
TEXTS = ["The canteen opens at noon.", "Every employee has 28 days of leave a year.", "Leave the door open."]


@asynccontextmanager
async def started(directory: Path, cross_encoder: str | None, **own: Any) -> AsyncIterator[Slipstream]:
    service = build(
        Settings(
            data=DataSettings(dir=directory, store="memory"),
            models=ModelsSettings(encoder="fake", small="fake", cross_encoder=cross_encoder),
            cross_encoder=CrossEncoderSettings(**own),
        )
    )
    try:
        await service.start()
        for number, text in enumerate(TEXTS):
            call = service.open_call("acme", None, None)
            await service.ingest(f"{number}.md", text.encode(), call, collection="docs")
        yield service
    finally:
        await service.stop()


async def find(service: Slipstream) -> tuple[list[str], list[str], list[str]]:
    """Scorers, texts and what was given up."""
    call = service.open_call("acme", None, None)
    found = await service.parts.pipeline.find(Question(QUESTION, Scope("acme")), call)
    items = found.items
    return [item.scorer for item in items], [item.passage.text for item in items], call.degraded


async def test_a_cross_encoder_decides_and_late_interaction_narrows_more(tmp_path: Path) -> None:
    async with started(tmp_path, "fake") as service:
        assert service.settings.retrieval.rerank_limit == CASCADE_CANDIDATES
        scorers, texts, degraded = await find(service)
    assert set(scorers) == {"cross_encoder"}
    assert texts[0] == TEXTS[1]
    assert degraded == []


async def test_a_limit_that_was_set_stays(tmp_path: Path) -> None:
    settings = Settings(
        data=DataSettings(dir=tmp_path, store="memory"),
        models=ModelsSettings(encoder="fake", small="fake", cross_encoder="fake"),
        retrieval=RetrievalSettings(rerank_limit=20),
    )
    assert build(settings).settings.retrieval.rerank_limit == 20


async def test_a_local_one_is_loaded_before_ready_and_shared_through_the_batcher(tmp_path: Path) -> None:
    directory = write_cross_encoder(tmp_path / "tiny", Graph(random_weights()))
    async with started(tmp_path / "data", str(directory)) as service:
        assert service.readiness.ready
        scorers, _, degraded = await find(service)
        assert (set(scorers), degraded) == ({"cross_encoder"}, [])
        batcher = service.parts.pair_batcher
        assert batcher is not None
        assert batcher.healthy()
        rendered = service.metrics.render().decode()
        assert 'slipstream_batch_items_count{batcher="cross-encoder"} 1.0' in rendered
        await batcher.close()
        assert not service.readiness.ready, "a dead batcher takes readiness down"


async def test_a_remote_one_that_is_down_costs_the_order_only(tmp_path: Path) -> None:
    async with faulty_reranker(ranks) as server:
        url = server.url
    async with started(tmp_path, url, retries=0) as service:
        assert service.readiness.ready
        scorers, texts, degraded = await find(service)
        assert (set(scorers), degraded) == ({"maxsim"}, ["cross_encoder"])
        assert texts[0] == TEXTS[1]
        call = service.open_call("acme", None, None)
        ranked = await service.rerank(QUESTION, TEXTS, None, call)
        assert (ranked.scorer, call.degraded) == ("maxsim", ["cross_encoder"])
        with pytest.raises(TryAgain):
            await service.rerank(QUESTION, TEXTS, service.ranking_models[0], call)


async def test_a_remote_one_is_asked_once_a_question(tmp_path: Path) -> None:
    async with faulty_reranker(ranks) as server, started(tmp_path, server.url) as service:
        asked = len(server.asked)
        assert set((await find(service))[0]) == {"cross_encoder"}
        assert len(server.asked) == asked + 1
        await find(service)
        assert len(server.asked) == asked + 1, "what was scored is remembered"


async def test_a_refused_key_stops_the_start(tmp_path: Path) -> None:
    async with faulty_reranker(raw("401 Unauthorized", b"no")) as server:
        with pytest.raises(ConfigError, match="api_key"):
            async with started(tmp_path, server.url):
                pass


async def test_texts_are_ranked_by_the_cross_encoder_or_by_late_interaction_on_request(tmp_path: Path) -> None:
    directory = write_cross_encoder(tmp_path / "tiny", Graph(random_weights()))
    async with started(tmp_path / "data", str(directory)) as service:
        assert service.ranking_models == ("tiny", "fake")
        for model, scorer in ((None, "cross_encoder"), ("tiny", "cross_encoder"), ("fake", "maxsim")):
            ranked = await service.rerank(QUESTION, TEXTS, model, service.open_call("acme", None, None))
            assert (ranked.scorer, len(ranked.scores)) == (scorer, 3)
        assert max(range(3), key=lambda place: ranked.scores[place]) == 1
        with pytest.raises(NotFound):
            await service.rerank(QUESTION, TEXTS, "other", service.open_call("acme", None, None))


async def test_over_http_without_a_cross_encoder(tmp_path: Path) -> None:
    async with started(tmp_path, None) as service:
        transport = httpx.ASGITransport(create_app(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            body = {"query": QUESTION, "documents": TEXTS * 100, "top_n": 2, "model": "fake"}
            response = await http.post("/v1/rerank", json=body)
    answer = response.json()
    assert [item["index"] for item in answer["results"]] == [1, 4]
    assert (answer["model"], answer["slipstream"]["scorer"]) == ("fake", "maxsim")
    assert "late_interaction" in response.headers["server-timing"]
    assert service.encoding.load().running_tokens == 0
