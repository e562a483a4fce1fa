"""The estimate of what the prefix cache holds."""

from __future__ import annotations

import numpy as np

from slipstream.models.prefix_ledger import PrefixLedger


def test_whole_blocks_of_a_common_prefix_count() -> None:
    ledger = PrefixLedger(100, 4)
    ledger.computed(np.arange(10))
    assert ledger.cached_tokens(np.arange(10)) == 8
    assert ledger.cached_tokens(np.append(np.arange(6), [99, 98, 97])) == 4
    assert ledger.cached_tokens(np.arange(1, 11)) == 0


def test_the_last_token_is_always_computed() -> None:
    ledger = PrefixLedger(100, 4)
    ledger.computed(np.arange(8))
    assert ledger.cached_tokens(np.arange(8)) == 7


def test_equal_blocks_after_different_beginnings_are_different() -> None:
    ledger = PrefixLedger(100, 2)
    ledger.computed(np.array([1, 2, 3, 4]))
    assert ledger.cached_tokens(np.array([5, 6, 3, 4, 7])) == 0


def test_the_least_recently_used_go_first() -> None:
    ledger = PrefixLedger(2, 2)
    ledger.computed(np.array([1, 1]))
    ledger.computed(np.array([2, 2]))
    assert ledger.cached_tokens(np.array([1, 1, 0])) == 2
    ledger.computed(np.array([3, 3]))
    assert ledger.cached_tokens(np.array([1, 1, 0])) == 2
    assert ledger.cached_tokens(np.array([2, 2, 0])) == 0
