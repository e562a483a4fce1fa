"""RRF equals its formula, is deterministic, and gives no synthetic ranks."""

from __future__ import annotations

import random

import pytest

from slipstream.answer.fuse import reciprocal_rank_fusion
from slipstream.types import Hit


def hits(names: str) -> list[Hit]:
    return [Hit(name, 1.0 / (i + 1)) for i, name in enumerate(names)]


def order(names: tuple[str, str], **options: float) -> str:
    return "".join(c.passage_id for c in reciprocal_rank_fusion(hits(names[0]), hits(names[1]), **options))  # type: ignore[arg-type]


def test_weight_zero_gives_the_other_list_exactly() -> None:
    assert order(("XaY", "bcY"), dense_weight=1, sparse_weight=0) == "XaY"
    assert order(("XaY", "bcY"), dense_weight=0, sparse_weight=1) == "bcY"


def test_agreement_beats_a_single_first_place() -> None:
    assert order(("XaY", "bcY"))[0] == "Y"


def test_a_passage_in_one_list_only_has_no_rank_in_the_other() -> None:
    fused = {c.passage_id: c for c in reciprocal_rank_fusion(hits("XaY"), hits("bcY"))}
    assert fused["X"].sparse_rank is None
    assert fused["X"].score == pytest.approx(1 / 61)
    assert fused["b"].dense_rank is None


def test_equals_the_formula() -> None:
    rng = random.Random(7)
    names = "abcdefghijklmnop"
    for _ in range(50):
        dense, sparse = ("".join(rng.sample(names, rng.randint(0, 10))) for _ in range(2))
        for c in reciprocal_rank_fusion(hits(dense), hits(sparse), k=17, dense_weight=0.7, sparse_weight=1.3):
            expected = 0.0
            if c.passage_id in dense:
                expected += 0.7 / (17 + dense.index(c.passage_id) + 1)
            if c.passage_id in sparse:
                expected += 1.3 / (17 + sparse.index(c.passage_id) + 1)
            assert c.score == pytest.approx(expected)


def test_duplicates_count_once_and_inputs_are_untouched() -> None:
    dense = hits("aab")
    fused = reciprocal_rank_fusion(dense, [])
    assert [(c.passage_id, c.dense_rank) for c in fused] == [("a", 1), ("b", 2)]
    assert dense == hits("aab")


def test_ties_are_broken_the_same_way_each_time() -> None:
    assert order(("ab", "cd")) == order(("ab", "cd")) == "acbd"
