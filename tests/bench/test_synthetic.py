from __future__ import annotations

import numpy as np
import pytest

from slipstream.bench.synthetic import PART, SMALL, WHOLE, SyntheticCorpus, tenant_of
from slipstream.stores.bm25 import question_terms
from slipstream.types import IndexedPassage


@pytest.fixture(scope="module")
def corpus() -> SyntheticCorpus:
    return SyntheticCorpus()


@pytest.fixture(scope="module")
def passages(corpus: SyntheticCorpus) -> list[IndexedPassage]:
    return [indexed for lot in corpus.passages(0, 2_000) for indexed in lot]


def test_a_larger_corpus_begins_with_a_smaller_one(corpus: SyntheticCorpus, passages: list[IndexedPassage]) -> None:
    again = [indexed for lot in SyntheticCorpus().passages(1_000, 2_000) for indexed in lot]
    assert [i.passage for i in again] == [i.passage for i in passages[1_000:]]
    assert (again[7].encoding.dense == passages[1_007].encoding.dense).all()


def test_vectors_crowd_in_topics(passages: list[IndexedPassage]) -> None:
    vectors = np.stack([indexed.encoding.dense for indexed in passages])
    assert np.abs(np.linalg.norm(vectors, axis=1) - 1).max() < 1e-5
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, 0)
    assert 0.6 < cosines.mean() < 0.75
    assert 0.82 < np.median(cosines.max(axis=1)) < 0.92


def test_words_follow_zipf(passages: list[IndexedPassage]) -> None:
    words = [word for indexed in passages for word in indexed.passage.text.split()]
    _, counts = np.unique(words, return_counts=True)
    counts = np.sort(counts)[::-1]
    assert 2.5 < counts[0] / counts[9] < 6
    assert len(counts) > 20_000


def test_tenants_have_their_shares_and_ids_are_distinct(passages: list[IndexedPassage]) -> None:
    tenants = [tenant_of(number) for number in range(100_000)]
    assert [tenants.count(t) for t in (WHOLE, PART, SMALL)] == [98_900, 1_000, 100]
    assert len({indexed.passage.id for indexed in passages}) == 2_000


def test_questions_are_about_their_passage(corpus: SyntheticCorpus, passages: list[IndexedPassage]) -> None:
    for query, indexed in zip(corpus.queries(0, 50), passages, strict=False):
        assert query.text in indexed.passage.text
        assert 4 <= len(query.text.split()) <= 12
        assert 0.8 < float(query.vector @ indexed.encoding.dense) < 0.999
        assert question_terms(query.text).ids
