"""Faults at the border between the wire and the program: each over a real socket and the whole program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from cases.product import CHAT, DOCUMENTS, SEARCH, asking, found, in_process, put

from slipstream.models.fake_llm import FakeLanguageModel

pytestmark = pytest.mark.anyio

PAGE = "<html><head><title>Leave</title></head><body><p>Everyone has <b>28 days</b> of leave.</p></body></html>"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_prompt_too_long_is_a_status_streamed_or_not(tmp_path: Path, stream: bool) -> None:
    async with in_process(tmp_path, FakeLanguageModel(context_tokens=700)) as here:
        await put(here.http, "leave.txt", "Everyone has 28 days of leave.")
        response = await here.http.post(CHAT, json=asking("How many days of leave? " * 200, stream=stream))
        error = response.json()["error"]
        assert (response.status_code, error["code"]) == (400, "context_length_exceeded")


async def test_what_a_document_is_said_to_be_is_what_it_is_read_as(tmp_path: Path) -> None:
    async with in_process(tmp_path, FakeLanguageModel()) as here:
        body = {"name": "page", "text": PAGE.removeprefix("<html>"), "type": "text/html"}
        by_field = await here.http.post(DOCUMENTS, json=body)
        by_header = await here.http.post(
            DOCUMENTS,
            params={"name": "raw"},
            content=PAGE.removeprefix("<html>").encode(),
            headers={"content-type": "text/html; charset=utf-8"},
        )
        by_part = await here.http.post(DOCUMENTS, files={"file": ("part", b"# Leave\n\n28 days.", "text/markdown")})
        types = [response.json()["type"] for response in (by_field, by_header, by_part)]
        assert types == ["html", "html", "markdown"]
        assert by_field.json()["title"] == "Leave"
        assert "Everyone has 28 days of leave." in await found(here.http, "days of leave")


async def test_the_same_bytes_as_another_type_are_another_version(tmp_path: Path) -> None:
    async with in_process(tmp_path, FakeLanguageModel()) as here:
        outcomes = []
        for media_type in ("text/plain", "text/plain", "text/html"):
            body = {"text": f"<p>{PAGE}", "type": media_type}
            outcomes.append((await here.http.put(f"{DOCUMENTS}/page", json=body)).json()["outcome"])
        assert outcomes == ["created", "unchanged", "replaced"]


async def test_a_type_that_the_content_contradicts_is_said(tmp_path: Path) -> None:
    async with in_process(tmp_path, FakeLanguageModel()) as here:
        body = {"name": "page", "text": "no PDF", "type": "application/pdf"}
        response = await here.http.post(DOCUMENTS, json=body)
        assert (response.status_code, response.json()["error"]["code"]) == (422, "wrong_format")


@pytest.mark.parametrize("number", ["1" + "0" * 400, str(2**63), str(-(2**63) - 1)])
async def test_integers_of_any_size_are_the_callers_fault(tmp_path: Path, number: str) -> None:
    async with in_process(tmp_path, FakeLanguageModel()) as here:
        for url, body, param in (
            (SEARCH, '{"query": "a", "filters": {"floor": %s}}', "filters.floor"),
            (SEARCH, '{"query": "a", "filters": {"floor": [1, %s]}}', "filters.floor"),
            (SEARCH, '{"query": "a", "filters": {"time": {"gte": %s}}}', "filters.time.gte"),
            (DOCUMENTS, '{"name": "a", "text": "a", "metadata": {"floor": %s}}', "metadata.floor"),
        ):
            error = await refused(here.http, url, body % number)
            assert error["param"] == param


async def refused(http: httpx.AsyncClient, url: str, body: str) -> dict[str, Any]:
    response = await http.post(url, content=body.encode(), headers={"content-type": "application/json"})
    assert response.status_code == 400, response.text
    error: dict[str, Any] = response.json()["error"]
    return error


async def test_a_page_of_documents_begins_where_the_last_one_ended(tmp_path: Path) -> None:
    async with in_process(tmp_path, FakeLanguageModel()) as here:
        written = [(name, place) for name in ("a.txt", "b.txt") for place in ("c", "d", "e")]
        for name, place in written:
            body = {"text": f"{name} {place}", "collection": place}
            assert (await here.http.put(f"{DOCUMENTS}/{name}", json=body)).status_code == 201
        seen: list[tuple[str, str]] = []
        behind: dict[str, str] | None = {}
        while behind is not None:
            page = (await here.http.get(DOCUMENTS, params={"limit": 2, **behind})).json()
            seen += [(document["id"], document["collection"]) for document in page["data"]]
            behind = page["next"]
        assert seen == written


async def test_search_gives_as_many_as_its_limit_allows(tmp_path: Path) -> None:
    async with in_process(tmp_path, FakeLanguageModel()) as here:
        for n in range(70):
            await put(here.http, f"{n}.txt", f"Room {n} has {n} windows.")
        for rerank in (True, False):
            assert len(await found(here.http, "windows of a room", limit=70, rerank=rerank)) == 70
