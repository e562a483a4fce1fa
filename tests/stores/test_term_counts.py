from __future__ import annotations

import math
import random
from collections import Counter
from zipfile import BadZipFile

import numpy as np
import pytest

from slipstream.stores.bm25 import SparseTerms, idf
from slipstream.stores.term_counts import TermCounts, tallied


def weights(counts: TermCounts, tenant: str, ids: list[int]) -> dict[int, float]:
    weighted = counts.weighted(SparseTerms(ids, [1.0] * len(ids)), tenant)
    return dict(zip(weighted.ids, weighted.weights, strict=True))


def test_weights_are_those_of_the_passages_that_are_left() -> None:
    """Against counting anew, through thousands of additions and removals, across the settling of what is recent."""
    pick, counts = random.Random(1), TermCounts()
    held: dict[str, list[list[int]]] = {"a": [], "b": []}
    for _ in range(3_000):
        tenant = pick.choice(["a", "b"])
        if held[tenant] and pick.random() < 0.4:
            gone = held[tenant].pop(pick.randrange(len(held[tenant])))
            counts.remove(tallied([(tenant, gone)]))
        else:
            new = pick.sample(range(2**32 - 50_000, 2**32), 40)
            held[tenant].append(new)
            counts.add(tallied([(tenant, new)]))
    for tenant, passages in held.items():
        containing = Counter(term for ids in passages for term in ids)
        asked = [*list(containing)[:500], 5, 7]
        exact = {t: idf(containing[t], len(passages)) for t in asked if containing[t]}
        assert weights(counts, tenant, asked) == pytest.approx(exact)
    assert counts.passages() == len(held["a"]) + len(held["b"])


def test_one_call_may_hold_passages_of_several_tenants() -> None:
    counts = TermCounts()
    counts.add(tallied([("a", [1, 2]), ("b", [2]), ("a", [2, 3])]))
    assert weights(counts, "a", [1, 2, 3]) == {1: idf(1, 2), 2: idf(2, 2), 3: idf(1, 2)}
    assert weights(counts, "b", [1, 2, 3]) == {2: idf(1, 1)}
    assert weights(counts, "c", [1]) == {}


def test_a_questions_own_weights_count() -> None:
    counts = TermCounts()
    counts.add(tallied([("a", [9]), ("a", [])]))
    weighted = counts.weighted(SparseTerms([9], [3.0]), "a")
    assert weighted.weights == [pytest.approx(3 * math.log(1 + 1.5 / 1.5))]


def test_a_tenant_whose_passages_are_gone_is_forgotten() -> None:
    counts = TermCounts()
    counts.add(tallied([("a", [1]), ("b", [1])]))
    counts.remove(tallied([("a", [1])]))
    counts.forget("b")
    counts.forget("b")
    assert counts.passages() == 0
    assert weights(counts, "a", [1]) == weights(counts, "b", [1]) == {}


def test_counts_come_back_from_bytes_whole() -> None:
    counts = TermCounts()
    assert TermCounts.unpacked(counts.packed()).passages() == 0
    counts.add(tallied([("租户", [1, 2**32 - 1]), ("", [2]), ("租户", [1])]))
    again = TermCounts.unpacked(counts.packed())
    assert again.passages() == 3
    for tenant in ("租户", ""):
        assert weights(again, tenant, [1, 2, 2**32 - 1]) == weights(counts, tenant, [1, 2, 2**32 - 1])
    again.add(tallied([("租户", [1])]))
    assert weights(again, "租户", [1]) == {1: idf(3, 3)}


@pytest.mark.parametrize("damage", [b"", b"\0" * 100, b"PK\x03\x04 not a zip"])
def test_what_is_no_packed_form_is_refused(damage: bytes) -> None:
    with pytest.raises((BadZipFile, ValueError, KeyError, OSError, EOFError)):
        TermCounts.unpacked(damage)


def test_half_of_a_packed_form_is_refused() -> None:
    counts = TermCounts()
    counts.add(tallied([("a", np.arange(1_000).tolist())]))
    packed = counts.packed()
    with pytest.raises((BadZipFile, ValueError, KeyError, OSError, EOFError)):
        TermCounts.unpacked(packed[: len(packed) // 2])
