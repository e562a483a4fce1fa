"""(query, passage) pairs → token ids that keep the whole query, in length-sorted batches bounded by tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding as Pieces
from tokenizers import Tokenizer

from slipstream.errors import ConfigError, InvalidRequest
from slipstream.models.token_batches import clean, padded_length, padding_of

Pair: TypeAlias = tuple[str, str]

_LEAST_PASSAGE = 16
"""Tokens of a passage that must fit beside its query: fewer, and the score would say nothing of it."""
_PASSAGE = 1
"""The library's number for the second sequence of a pair."""


@dataclass(frozen=True, slots=True)
class PairTokens:
    ids: NDArray[np.int64]
    """(n,) specials included."""
    types: NDArray[np.int64]
    """(n,) the segment of each token, as the tokenizer's template numbers them."""


@dataclass(frozen=True, slots=True)
class PairBatch:
    """Arrays are (b, n), padded at the end."""

    ids: NDArray[np.int64]
    mask: NDArray[np.int64]
    types: NDArray[np.int64]
    places: tuple[int, ...]
    """Where each row's pair stood in the order given."""


class PairTokenizer:
    """A `tokenizer.json`, never changed after it is loaded, and so safe on any number of threads.

    Raises ConfigError when the file cannot be read or makes no pairs.
    """

    def __init__(self, path: Path, max_tokens: int) -> None:
        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises bare Exception
            raise ConfigError(f"{path} is not a usable tokenizer.json: {error}") from None
        self.padding_id = padding_of(self._tokenizer)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._max_tokens = max_tokens

    def tokenize(self, pairs: Sequence[Pair]) -> list[PairTokens]:
        """Of a pair that is too long the end of the passage is cut.

        Raises InvalidRequest when the query alone leaves no room for a passage.
        """
        encoded = self._tokenizer.encode_batch([(clean(query), clean(passage)) for query, passage in pairs])
        return [self._tokens(pieces) for pieces in encoded]

    def _tokens(self, pieces: Pieces) -> PairTokens:
        ids = np.asarray(pieces.ids, np.int64)
        types = np.asarray(pieces.type_ids, np.int64)
        too_many = len(ids) - self._max_tokens
        if too_many <= 0:
            return PairTokens(ids, types)
        own = np.asarray([sequence == _PASSAGE for sequence in pieces.sequence_ids], np.bool_)
        passage = np.flatnonzero(own)
        left = len(passage) - too_many
        if left < min(_LEAST_PASSAGE, len(passage)):
            raise InvalidRequest(
                f"The query takes {len(ids) - len(passage)} of the {self._max_tokens} tokens that the cross-encoder "
                "reads and leaves no room for a passage. Ask with a shorter query.",
                code="query_too_long",
                param="query",
            )
        kept = np.delete(np.arange(len(ids)), passage[left:])
        return PairTokens(ids[kept], types[kept])


def pair_batches(pairs: Sequence[PairTokens], max_batch_tokens: int, longest: int, padding: int) -> list[PairBatch]:
    """Longest first, so that little is padding and streams end together; each holds at most `max_batch_tokens`,
    padding included, except that a single longer pair goes alone. None is padded past `longest`."""
    order = sorted(range(len(pairs)), key=lambda place: -len(pairs[place].ids))
    made: list[PairBatch] = []
    while order:
        length = min(longest, padded_length(len(pairs[order[0]].ids)))
        count = max(1, max_batch_tokens // length)
        made.append(_padded(pairs, order[:count], length, padding))
        order = order[count:]
    return made


def _padded(pairs: Sequence[PairTokens], places: Sequence[int], length: int, padding: int) -> PairBatch:
    ids = np.full((len(places), length), padding, np.int64)
    mask = np.zeros((len(places), length), np.int64)
    types = np.zeros((len(places), length), np.int64)
    for row, place in enumerate(places):
        own = pairs[place]
        ids[row, : len(own.ids)] = own.ids
        mask[row, : len(own.ids)] = 1
        types[row, : len(own.ids)] = own.types
    return PairBatch(ids, mask, types, tuple(places))
