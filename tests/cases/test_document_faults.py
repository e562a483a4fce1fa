"""Faults around documents: stale or missing results after an upload, a replacement or a deletion; bad files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from cases.product import DOCUMENTS, answer, found, own_process, put

pytestmark = pytest.mark.anyio

SAMPLES = Path(__file__).parent.parent / "data" / "pdf"
POEM = ("床前明月光", "疑是地上霜", "举头望明月", "低头思故乡")


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def http(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[httpx.AsyncClient]:
    """One server; each test is a tenant of its own."""
    async with own_process(tmp_path_factory.mktemp("documents")) as http:
        yield http


async def test_a_chinese_word_at_the_end_of_a_line_is_found_by_terms_alone(http: httpx.AsyncClient) -> None:
    for n, line in enumerate(POEM):
        await put(http, f"{n}.txt", line, tenant="poet")
    assert await found(http, "故乡", "sparse", tenant="poet") == ["低头思故乡"]


IDENTIFIERS = (
    "Error E1234-5: the pump has stopped.",
    "Error E1235-4: the pump has an error, see error 1234 and error 5.",
    "错误码E1234-6表示水泵过热，请停机。",
    "错误码 E6 与 1234：怎么处理错误码？错误码表见附录。",
    "Call getUserName() to read the name of whoever is signed in.",
    "What does a user get? The name of the user; what a user returns is a name.",
    "函数 parse_header 返回报文的头部。",
    "解析头部的函数有很多，它们返回各种报文的头部。",
)


@pytest.mark.models
async def test_exact_identifiers_come_first_through_the_whole_search_and_answer(tmp_path: Path) -> None:
    async with own_process(tmp_path, {"SLIPSTREAM_MODELS__SMALL": "fake"}) as http:
        for n, text in enumerate(IDENTIFIERS):
            await put(http, f"{n}.txt", text)
        for query, best in (
            ("E1234-5", 0),
            ("What is error E1234-5?", 0),
            ("错误码 E1234-6 怎么处理", 2),
            ("E1234-6", 2),
            ("what does getUserName return", 4),
            ("getUserName", 4),
            ("parse_header 返回什么", 6),
            ("parse_header", 6),
        ):
            assert (await found(http, query))[0] == IDENTIFIERS[best], query
            said, citations = await answer(http, query)
            assert citations[0]["document"] == f"{best}.txt", query
            assert said.startswith(IDENTIFIERS[best][:20]), query


async def test_with_half_of_the_documents_gone_terms_rank_as_if_they_had_never_been(tmp_path: Path) -> None:
    texts = {f"{n}.txt": " ".join(["pool", "缓存"] * (n % 7) + ["retry"] * (n % 5) + [f"n{n}"] * 9) for n in range(24)}
    kept = {name: text for n, (name, text) in enumerate(texts.items()) if n % 2}
    ranked = []
    for directory, also in ((tmp_path / "used", True), (tmp_path / "fresh", False)):
        directory.mkdir()
        async with own_process(directory) as http:
            for name, text in (texts if also else kept).items():
                await put(http, name, text)
            for name in texts.keys() - kept.keys() if also else ():
                assert (await http.delete(f"{DOCUMENTS}/{name}")).status_code == 200
            queries = ("pool", "缓存 retry", "retry n7", "pool 缓存 retry")
            ranked.append([await found(http, query, "sparse", limit=100, rerank=False) for query in queries])
    assert ranked[0] == ranked[1]
    assert len(ranked[0][0]) > 5


async def test_search_after_each_of_upload_replacement_and_deletion_sees_just_what_is_there(
    http: httpx.AsyncClient,
) -> None:
    for rooms in ("3", "2"):
        form = {"file": ("flat.txt", f"The flat has {rooms} rooms.".encode(), "text/plain")}
        assert (await http.post(DOCUMENTS, files=form, data={"tenant": "owner"})).status_code in {200, 201}
        for mode in ("hybrid", "dense", "sparse"):
            assert await found(http, "rooms of the flat", mode, tenant="owner") == [f"The flat has {rooms} rooms."]
        assert f"{rooms} rooms" in (await answer(http, "How many rooms has the flat?", tenant="owner"))[0]
    assert (await http.delete(f"{DOCUMENTS}/flat.txt", params={"tenant": "owner"})).status_code == 200
    for mode in ("hybrid", "dense", "sparse"):
        assert await found(http, "rooms of the flat", mode, tenant="owner") == []
    assert (await answer(http, "How many rooms has the flat?", tenant="owner"))[1] == []


async def test_the_same_files_sent_three_times_stay_as_many_passages(http: httpx.AsyncClient) -> None:
    for _ in range(3):
        for name in ("a.md", "dir/b.md"):
            await put(http, name, f"# {name}\n\nShared words.\n\n## More\n\nMore shared words.", tenant="repeat")
        assert len(await found(http, "shared words", limit=100, tenant="repeat")) == 2


async def test_what_cannot_be_read_is_named_with_its_reason_and_the_rest_is_indexed(http: httpx.AsyncClient) -> None:
    files = {
        "empty.txt": b"",
        "blank.txt": b" \n\t ",
        "scan.pdf": (SAMPLES / "scan.pdf").read_bytes(),
        "cut.pdf": (SAMPLES / "cut.pdf").read_bytes(),
        "letter.pdf": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(1_000),
        "binary.txt": bytes(range(256)) * 8,
        "gbk.txt": "如何开启自动扣款功能？请在设置页面选择付款方式。".encode("gbk"),
        "big5.txt": "如何開啟自動扣款功能？請在設定頁面選擇。".encode("big5"),
        "utf16.txt": "自动扣款 wide characters".encode("utf-16"),
        "latin.txt": "Größe und Maß, señor.".encode("latin-1"),
        "nul.txt": b"A line of a log.\x00Another one.",
    }
    response = await http.post(
        DOCUMENTS, files=[("files", (name, data)) for name, data in files.items()], data={"tenant": "mixed"}
    )
    results = {item.get("id", item.get("name")): item for item in response.json()["data"]}
    failed = {name: item["error"] for name, item in results.items() if "error" in item}
    assert response.status_code == 200
    assert {name: error["code"] for name, error in failed.items()} == {
        "empty.txt": "empty",
        "blank.txt": "empty",
        "scan.pdf": "no_text_layer",
        "cut.pdf": "truncated",
        "letter.pdf": "unsupported_format",
        "binary.txt": "binary",
    }
    assert all(len(error["message"]) > 20 for error in failed.values())
    for query, text in (
        ("自动扣款功能", "如何开启"),
        ("自動扣款", "如何開啟"),
        ("Größe", "señor"),
        ("log", "Another"),
        ("wide characters", "自动扣款"),
    ):
        assert text in " ".join(await found(http, query, "sparse", tenant="mixed")), query


async def test_a_document_is_found_as_soon_as_its_upload_is_answered(http: httpx.AsyncClient) -> None:

    async def upload_and_ask(n: int) -> None:
        filler = " ".join(f"Sentence {i} of document {n}." for i in range(60))
        await put(http, f"{n}.txt", f"The code of vault v{n}x is {n * 7919}.\n\n{filler}", tenant="vault")
        text, _ = await answer(http, f"What is the code of vault v{n}x?", tenant="vault")
        assert str(n * 7919) in text

    await asyncio.gather(*(upload_and_ask(n) for n in range(1, 9)))
