"""Duplicates collapse, documents keep to their share, neighbours are joined; spans still resolve."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

import pytest
from answer.path import TENANT, new_call

from slipstream.answer.shape import Shaper, distinct, spread
from slipstream.models.fake_encoder import FakeEncoder
from slipstream.settings import RetrievalSettings
from slipstream.stores.memory import MemoryStore
from slipstream.types import (
    Evidence,
    IndexedPassage,
    Passage,
    Passages,
    Query,
    Question,
    Scope,
    ScoredSpan,
    SearchOptions,
)

DOCUMENT = "First part here.\n\nSecond part of it.\n\n\nThird part is here. Fourth part ends it."
SPANS = ((0, 16), (18, 36), (39, 58), (50, 78))
"""A gap of two, a gap of three, and an overlap."""
CORPUS = "Every employee has 28 days of leave a year, and unused days expire at the end of March."


def passage(text: str, document: str = "d", position: int = 0, start: int = 0, **more: str) -> Passage:
    return Passage(
        id=str(uuid.uuid5(uuid.NAMESPACE_OID, f"{document}/{position}")),
        tenant=TENANT,
        collection=more.get("collection", "c"),
        document_id=document,
        version="v1",
        position=position,
        text=text,
        start=start,
        end=start + len(text),
    )


def evidence(passage: Passage, score: float = 1.0) -> Evidence:
    spans = (ScoredSpan(1, 3, 0.5),)
    return Evidence(passage, score, "maxsim", (0, min(5, len(passage.text))), score, 0.1, spans)


def texts(items: Sequence[Evidence]) -> list[str]:
    return [item.passage.text for item in items]


def found(*items: Evidence) -> Passages:
    return Passages(Query("q", "en"), items)


# --- duplicates ---


def test_equal_texts_collapse_into_the_best_ranked() -> None:
    items = [evidence(passage(text, document=str(n))) for n, text in enumerate(("a b", "c", "a  b\n", "a b"))]
    assert [item.passage.document_id for item in distinct(items)] == ["0", "1"]


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (CORPUS.replace("unused", "any unused"), True),
        (CORPUS.replace("28", "30"), False),
        ("The canteen opens at eleven and closes at two, except on Fridays.", False),
    ],
)
def test_near_duplicates_collapse_unless_a_number_differs(other: str, same: bool) -> None:
    items = [evidence(passage(CORPUS, "a")), evidence(passage(other, "b"))]
    assert len(distinct(items)) == 2
    assert len(distinct(items, near=0.85)) == (1 if same else 2)


def test_near_duplicates_in_chinese() -> None:
    zh = "每位员工每年有28天年假，未用完的年假在次年三月底失效，请提前安排。"
    items = [evidence(passage(text, text)) for text in (zh, zh.replace("请提前", "请尽早"), zh.replace("28", "30"))]
    assert texts(distinct(items, near=0.75)) == [zh, zh.replace("28", "30")]


# --- shares ---


@pytest.mark.parametrize(
    ("documents", "most", "limit", "kept"),
    [
        ("aaabc", 0, 3, [0, 1, 2]),
        ("aaabc", 1, 3, [0, 3, 4]),
        ("aaabc", 2, 3, [0, 1, 3]),
        ("aaab", 1, 3, [0, 1, 3]),  # nobody else has anything to say
        ("aaaa", 1, 3, [0, 1, 2]),
        ("", 1, 3, []),
    ],
)
def test_one_document_does_not_crowd_out_the_rest(documents: str, most: int, limit: int, kept: list[int]) -> None:
    items = [evidence(passage(f"text {n}", document, n)) for n, document in enumerate(documents)]
    assert [item.passage.position for item in spread(items, most, limit)] == kept


def test_documents_of_one_name_in_two_collections_are_two() -> None:
    items = [evidence(passage(str(n), "d", n, collection=c)) for n, c in enumerate("xxy")]
    assert [item.passage.position for item in spread(items, 1, 2)] == [0, 2]


# --- neighbours ---


async def shaped(items: Sequence[Evidence], stored: Sequence[Passage], **options: int) -> Passages:
    store, encoder = MemoryStore(dimensions=FakeEncoder().dimensions), FakeEncoder()
    encodings = await encoder.encode([one.text for one in stored], "passage")
    await store.upsert([IndexedPassage(p, e) for p, e in zip(stored, encodings, strict=True)])
    question = Question("q", Scope(TENANT), search=SearchOptions(**options))  # type: ignore[arg-type]
    return await Shaper(store, RetrievalSettings(passages=2))(found(*items), question, new_call())


PARTS = [passage(DOCUMENT[a:b], "d", n, a) for n, (a, b) in enumerate(SPANS)]


@pytest.mark.anyio
@pytest.mark.parametrize("position", range(4))
@pytest.mark.parametrize("around", [1, 2])
async def test_neighbours_are_joined_and_every_span_still_resolves(position: int, around: int) -> None:
    older = replace(passage("Of another version.", "d", 1), id=str(uuid.UUID(int=1)), version="v0")
    [item] = (await shaped([evidence(PARTS[position])], [*PARTS, older], neighbours=around)).items
    first, last = max(0, position - around), min(3, position + around)
    assert (item.passage.start, item.passage.end) == (SPANS[first][0], SPANS[last][1])
    assert item.passage.id == PARTS[position].id
    assert item.passage.text == DOCUMENT[item.passage.start : item.passage.end]
    start, end = item.sentence
    assert item.passage.text[start:end] == PARTS[position].text[:5]
    span = item.others[0]
    assert item.passage.text[span.start : span.end] == PARTS[position].text[1:3]


@pytest.mark.anyio
async def test_no_text_is_shown_twice() -> None:
    near = (await shaped([evidence(PARTS[1]), evidence(PARTS[2], 0.9)], PARTS, neighbours=1)).items
    assert [(i.passage.start, i.passage.end) for i in near] == [(0, 36), (39, 78)]
    apart = (await shaped([evidence(PARTS[0]), evidence(PARTS[2], 0.9)], PARTS, neighbours=1)).items
    assert [(i.passage.start, i.passage.end) for i in apart] == [(0, 36), (39, 78)]


@pytest.mark.anyio
async def test_off_it_gives_back_what_it_was_given() -> None:
    items = [evidence(PARTS[n], 1 - n / 10) for n in range(3)]
    call = new_call()
    shown = await Shaper(MemoryStore(dimensions=4), RetrievalSettings(passages=2))(
        found(*items), Question("q", Scope(TENANT)), call
    )
    assert shown.items == tuple(items[:2])
    assert call.spans == []
