"""Marking sentences: all passages at once give what each sentence alone would give."""

from __future__ import annotations

import numpy as np
import pytest

from slipstream.answer.identifiers import identifiers
from slipstream.answer.mark import Ranked, mark, sentence_scores
from slipstream.models.fake_encoder import FakeEncoder
from slipstream.types import Hit, Matrix, TokenVectors

pytestmark = pytest.mark.anyio

Spans = list[tuple[int, int]]


def unit_rows(random: np.random.Generator, rows: int) -> Matrix:
    vectors = random.standard_normal((rows, 16)).astype(np.float32)
    unit: Matrix = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def plain_score(query: Matrix, own: TokenVectors, span: tuple[int, int]) -> float:
    """Token by token: those that begin inside the span."""
    inside = [t for t, (start, _) in zip(own.tokens, own.offsets, strict=True) if span[0] <= start < span[1]]
    if not inside:
        return -1.0
    return float(np.mean([max(float(q @ t) for t in inside) for q in query]))


def passage_of(random: np.random.Generator) -> tuple[TokenVectors, Spans]:
    """Tokens five characters apart; sentences with gaps between them, some of which hold no token."""
    rows = int(random.integers(0, 40))
    starts = np.arange(rows, dtype=np.int32) * 5
    cuts = np.sort(random.choice(np.arange(0, 5 * rows + 30), size=2 * int(random.integers(1, 6)), replace=False))
    spans = [(int(a), int(b)) for a, b in cuts.reshape(-1, 2)]
    return TokenVectors(unit_rows(random, rows), np.stack([starts, starts + 4], axis=1)), spans


@pytest.mark.parametrize("seed", range(40))
def test_scores_equal_those_of_each_sentence_alone(seed: int) -> None:
    random = np.random.default_rng(seed)
    query = unit_rows(random, int(random.integers(1, 9)))
    made = [passage_of(random) for _ in range(int(random.integers(1, 6)))]
    expected = [plain_score(query, own, span) for own, spans in made for span in spans]
    assert sentence_scores(query, [own for own, _ in made], [spans for _, spans in made]) == pytest.approx(
        expected, abs=1e-5
    )


def test_nothing_to_compare_scores_lowest() -> None:
    none = TokenVectors(np.zeros((0, 16), np.float32), np.zeros((0, 2), np.int32))
    some = TokenVectors(unit_rows(np.random.default_rng(0), 3), np.array([[0, 1], [2, 3], [4, 5]], np.int32))
    query = unit_rows(np.random.default_rng(1), 2)
    assert sentence_scores(query, [none], [[(0, 4), (5, 9)]]) == [-1.0, -1.0]
    assert sentence_scores(query[:0], [some], [[(0, 4)]]) == [-1.0]
    assert sentence_scores(query, [none, some], [[(0, 4)], [(0, 6)]])[0] == -1.0
    assert sentence_scores(query, [], []) == []


async def test_the_answering_sentence_is_marked_in_either_language() -> None:
    from answer.path import passage

    texts = [
        "The canteen opens at noon. Every employee has 28 days of leave. The lift is out of order.",
        "食堂中午开门。每位员工每年有28天年假。电梯坏了。",
        "Nothing here.",
    ]
    passages = {p.id: p for p in map(passage, texts)}
    encoder = FakeEncoder()
    encodings = await encoder.encode(texts, "passage")
    vectors = {p.id: TokenVectors(e.tokens, e.offsets) for p, e in zip(passages.values(), encodings, strict=True)}
    ranked = [Ranked(Hit(passage_id, 0.5), "maxsim") for passage_id in passages] + [Ranked(Hit("gone", 0.4), "maxsim")]
    for question, place, answer in (
        ("How many days of leave has an employee?", 0, "Every employee has 28 days of leave."),
        ("员工每年有几天年假？", 1, "每位员工每年有28天年假。"),
    ):
        [encoding] = await encoder.encode([question], "query")
        marked = mark(encoding.tokens, identifiers(question), ranked, passages, vectors)
        assert [item.passage.text for item in marked] == texts, "order kept, what is gone left out"
        item = marked[place]
        assert item.passage.text[slice(*item.sentence)] == answer
        assert item.sentence_margin == pytest.approx(item.sentence_score - item.others[0].score)
        assert len(item.others) == 2


async def test_a_sentence_that_holds_the_identifier_is_favoured() -> None:
    from answer.path import passage

    text = "Error E1235-4 means a jam. Error E1234-5 means low ink."
    own = passage(text)
    encoder = FakeEncoder()
    [encoding] = await encoder.encode([text], "passage")
    [asked] = await encoder.encode(["What does error mean?"], "query")
    vectors = {own.id: TokenVectors(encoding.tokens, encoding.offsets)}
    [item] = mark(
        asked.tokens, identifiers("error E1234-5"), [Ranked(Hit(own.id, 1.0), "maxsim")], {own.id: own}, vectors
    )
    assert text[slice(*item.sentence)] == "Error E1234-5 means low ink."
