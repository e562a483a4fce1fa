"""The estimate of what the prefix cache holds."""

from __future__ import annotations

import numpy as np

from slipstream.models.prefix_ledger import SHARED, PrefixLedger


def test_whole_blocks_of_a_common_prefix_count() -> None:
    ledger = PrefixLedger(100, 4)
    ledger.computed(np.arange(10), "a")
    assert ledger.cached_tokens(np.arange(10), "a") == 8
    assert ledger.cached_tokens(np.append(np.arange(6), [99, 98, 97]), "a") == 4
    assert ledger.cached_tokens(np.arange(1, 11), "a") == 0


def test_the_last_token_is_always_computed() -> None:
    ledger = PrefixLedger(100, 4)
    ledger.computed(np.arange(8), "a")
    assert ledger.cached_tokens(np.arange(8), "a") == 7


def test_equal_blocks_after_different_beginnings_are_different() -> None:
    ledger = PrefixLedger(100, 2)
    ledger.computed(np.array([1, 2, 3, 4]), "a")
    assert ledger.cached_tokens(np.array([5, 6, 3, 4, 7]), "a") == 0


def test_the_least_recently_used_go_first() -> None:
    ledger = PrefixLedger(2, 2)
    ledger.computed(np.array([1, 1]), "a")
    ledger.computed(np.array([2, 2]), "a")
    assert ledger.cached_tokens(np.array([1, 1, 0]), "a") == 2
    ledger.computed(np.array([3, 3]), "a")
    assert ledger.cached_tokens(np.array([1, 1, 0]), "a") == 2
    assert ledger.cached_tokens(np.array([2, 2, 0]), "a") == 0


def test_what_one_tenant_computed_is_not_told_to_another() -> None:
    ledger = PrefixLedger(100, 2)
    ledger.computed(np.arange(10), "a")
    assert ledger.cached_tokens(np.arange(10), "b") == 0
    ledger.computed(np.arange(10), "b")
    assert ledger.cached_tokens(np.arange(10), "b") == 9


def test_what_the_server_computed_for_all_is_told_to_all() -> None:
    ledger = PrefixLedger(100, 2)
    ledger.computed(np.arange(4), SHARED)
    assert ledger.cached_tokens(np.arange(10), "a") == ledger.cached_tokens(np.arange(10), "b") == 4
    ledger.computed(np.arange(10), "a")
    assert ledger.cached_tokens(np.arange(10), "a") == 9
    assert ledger.cached_tokens(np.arange(10), "b") == 4
