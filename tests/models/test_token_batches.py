"""Batches: bounded with their padding, longest first, nobody lost, few shapes."""

from __future__ import annotations

import numpy as np
import pytest

from slipstream.models.token_batches import Tokens, batches, padded_length


def tokens_of(length: int) -> Tokens:
    return Tokens(np.arange(1, length + 1), np.arange(length), np.zeros((length, 2), np.int32))


@pytest.mark.parametrize("limit", [1, 7, 64, 512, 10_000])
def test_every_text_is_in_one_bounded_batch(limit: int) -> None:
    lengths = np.random.default_rng(3).integers(1, 100, 200).tolist()
    made = batches([tokens_of(length) for length in lengths], limit, longest=99, padding_id=9)
    assert sorted(place for batch in made for place in batch.places) == list(range(len(lengths)))
    for batch in made:
        assert batch.ids.size <= limit or len(batch.places) == 1
        assert batch.mask.sum(axis=1).tolist() == [lengths[place] for place in batch.places]
        assert (batch.ids[batch.mask == 0] == 9).all()
    widths = [batch.ids.shape[1] for batch in made]
    assert widths == sorted(widths, reverse=True)
    assert set(widths) <= {99, *map(padded_length, range(1, 100))}


def test_little_is_padding() -> None:
    lengths = np.random.default_rng(3).integers(1, 250, 500).tolist()
    computed = sum(batch.ids.size for batch in batches([tokens_of(length) for length in lengths], 512, 512, 0))
    assert computed < 1.08 * sum(lengths)


def test_lengths_are_few_and_little_longer() -> None:
    assert [padded_length(n) for n in (1, 8, 9, 12, 13, 32, 33, 40, 41)] == [8, 8, 12, 12, 16, 32, 40, 40, 48]
