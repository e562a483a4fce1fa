"""Texts → token ids with character spans, in length-sorted batches bounded by tokens."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding as Pieces
from tokenizers import Tokenizer

from slipstream.errors import ConfigError

T = TypeVar("T")

_SURROGATE = re.compile("[\ud800-\udfff]")
_LEAST_LENGTH = 8
_FINE_LENGTH = 32
"""Up to here lengths are told apart by 4 tokens, above by 8: queries are short."""
_PADDING_NAMES = ("<pad>", "[PAD]")


@dataclass(frozen=True, slots=True)
class Tokens:
    """One text as the model sees it."""

    ids: NDArray[np.int64]
    """(n,) prefix and specials included."""
    rows: NDArray[np.intp]
    """(m,) which of them are tokens of the text itself."""
    offsets: NDArray[np.int32]
    """(m, 2) their character spans in the text."""


@dataclass(frozen=True, slots=True)
class Batch:
    ids: NDArray[np.int64]
    """(b, n) padded at the end."""
    mask: NDArray[np.int64]
    """(b, n) 1 for a token, 0 for padding."""
    places: tuple[int, ...]
    """Where each row's text stood in the order given."""


class TextTokenizer:
    """A `tokenizer.json`, never changed after it is loaded, and so safe on any number of threads.

    Truncation and padding are done here and not by the library, which keeps them as shared mutable state.
    Raises ConfigError when the file cannot be read.
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

    def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens per text, without specials."""
        cleaned = [clean(text) for text in texts]
        return [len(pieces) for pieces in self._tokenizer.encode_batch_fast(cleaned, add_special_tokens=False)]

    def tokenize(self, texts: Sequence[str], prefix: str) -> list[Tokens]:
        encoded = self._tokenizer.encode_batch([prefix + clean(text) for text in texts])
        return [self._tokens(pieces, text, len(prefix)) for pieces, text in zip(encoded, texts, strict=True)]

    def _tokens(self, pieces: Pieces, text: str, prefix: int) -> Tokens:
        ids, special, spans = pieces.ids, pieces.special_tokens_mask, pieces.offsets
        if len(ids) > self._max_tokens:
            ids, special, spans = (self._cut(values, special) for values in (ids, special, spans))
        rows, offsets = [], []
        for row, (start, end) in enumerate(spans):  # plain numbers: a query's are too few for arrays to be quicker
            start, end = max(start - prefix, 0), end - prefix
            if special[row] or end <= start:
                continue
            while start < end - 1 and text[start].isspace():  # some tokenizers count the space before a word to it
                start += 1
            rows.append(row)
            offsets.append((start, end))
        return Tokens(
            np.array(ids, np.int64), np.array(rows, np.intp), np.array(offsets, np.int32).reshape(len(rows), 2)
        )

    def _cut(self, values: list[T], special: list[int]) -> list[T]:
        """What is kept of a text that is too long: its beginning, and the specials that close it."""
        closing = next((count for count, mark in enumerate(reversed(special)) if not mark), 0)
        return values[: self._max_tokens - closing] + values[len(values) - closing :]


def padded_length(length: int) -> int:
    """The engine prepares itself for every new shape, which takes longer than a pass: so there are few lengths."""
    step = 4 if length <= _FINE_LENGTH else 8
    return max(_LEAST_LENGTH, -(-length // step) * step)


def batches(tokens: Sequence[Tokens], max_batch_tokens: int, longest: int, padding_id: int) -> list[Batch]:
    """Longest first, so that little is padding and streams end together; each batch holds at most
    `max_batch_tokens`, padding included, except that a single longer text goes alone. None is padded past `longest`."""
    order = sorted(range(len(tokens)), key=lambda place: -len(tokens[place].ids))
    groups: list[list[int]] = []
    room = 0
    for place in order:
        if room <= 0:
            groups.append([])
            room = max_batch_tokens // min(longest, padded_length(len(tokens[place].ids)))
        groups[-1].append(place)
        room -= 1
    return [_padded(tokens, group, longest, padding_id) for group in groups]


def _padded(tokens: Sequence[Tokens], places: Sequence[int], longest: int, padding_id: int) -> Batch:
    own_length = max(len(tokens[place].ids) for place in places)
    length = max(own_length, min(longest, padded_length(own_length)))
    ids = np.full((len(places), length), padding_id, np.int64)
    mask = np.zeros((len(places), length), np.int64)
    for row, place in enumerate(places):
        own = tokens[place].ids
        ids[row, : len(own)] = own
        mask[row, : len(own)] = 1
    return Batch(ids, mask, tuple(places))


def padding_of(tokenizer: Tokenizer) -> int:
    """What a tokenizer pads with, by its own word or by a usual name; 0 when it has neither."""
    stated = tokenizer.padding
    named = (tokenizer.token_to_id(name) for name in _PADDING_NAMES)
    return int(stated["pad_id"]) if stated else next((i for i in named if i is not None), 0)


def clean(text: str) -> str:
    """Lone surrogates (broken JSON escapes) cannot be tokenised; one for one, so that spans stay right."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)
