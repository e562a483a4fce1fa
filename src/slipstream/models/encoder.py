"""Any BERT-family encoder on OpenVINO: one forward pass gives the dense vector and the token vectors."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from slipstream.errors import Unavailable
from slipstream.models.base import TextKind
from slipstream.models.encoder_directory import EncoderCard, EncoderDirectory, Pooling
from slipstream.models.encoder_engine import (
    EncoderEngine,
    load_passages,
    load_query,
    passage_precision,
    usable_threads,
)
from slipstream.models.precedence import Precedence
from slipstream.models.token_batches import Batch, TextTokenizer, Tokens, batches, padded_length
from slipstream.runtime.workers import Worker
from slipstream.settings import EncoderSettings
from slipstream.types import Encoding, Matrix, Vector

PASS_TOKENS = 256
"""A forward pass of passages is no larger than this, padding included: larger ones are no faster per token, and
nothing of what a caller who has left asked for is computed after them."""
_WARM_QUERY_TOKENS = 64
"""Queries up to this long find their shapes prepared."""
_TINY = np.float32(1e-12)


class OpenVinoEncoder:
    """Implements models.base.Encoder over an encoder directory (see EncoderDirectory).

    Queries have a thread, passages one a stream; no pass of passages begins while a query runs.
    Raises ConfigError when the directory is incomplete, or the precision asked for is not this processor's.
    """

    def __init__(self, directory: Path, settings: EncoderSettings) -> None:
        self._directory = EncoderDirectory(directory)
        self._settings = settings
        card = self._directory.card
        self.name = card.name
        self.dimensions = card.dimensions
        self.max_tokens = card.max_tokens
        self.graph = self._directory.graph
        self.query_graph = self._directory.query_graph
        self.passage_precision = passage_precision(settings)
        self._threads = usable_threads(settings.threads)
        self._loaded: _Loaded | None = None
        self._precedence = Precedence()
        self._queries = Worker("encoder-queries")
        self._passages = Worker("encoder-passages", self._threads)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self._model().tokenizer.count(texts)

    def input_tokens(self, texts: Sequence[str], kind: TextKind) -> list[int]:
        """Tokens a forward pass computes for each text: prefix and specials included, cut to `max_tokens`."""
        return [len(tokens.ids) for tokens in self._model().tokenize(texts, kind)]

    async def encode(self, texts: Sequence[str], kind: TextKind) -> list[Encoding]:
        model = self._model()
        if kind == "query":
            return await self._queries.run(self._encode_queries, model, tuple(texts))
        job = _Job(await self._passages.run(model.tokenize, tuple(texts), kind), model)
        streams = min(model.engine.streams, len(job.left))
        try:
            await asyncio.gather(*(self._passages.run(self._stream, model, job) for _ in range(streams)))
        finally:
            job.left.clear()  # the caller has gone, or a pass has failed: nobody reads the rest
        return [job.done[place] for place in range(len(texts))]

    async def warm_up(self) -> None:
        """Loads the model once, then runs a full pass of passages on each stream and queries of all usual lengths.

        Raises ConfigError when the graph cannot be used.
        """
        if self._loaded is None:
            self._loaded = await self._load()
        await self._queries.run(self._warm_queries, self._loaded)
        long = "warm " * self.max_tokens
        await self.encode([long] * self._threads, "passage")

    async def close(self) -> None:
        await self._queries.close()
        await self._passages.close()
        self._loaded = None

    async def _load(self) -> _Loaded:
        card = self._directory.card
        query, tokenizer, passages = await asyncio.gather(
            self._queries.run(load_query, self._directory, self._threads),
            self._passages.run(TextTokenizer, self._directory.tokenizer, card.max_tokens),
            self._passages.run(load_passages, self._directory, self._threads, self.passage_precision),
        )
        engine = EncoderEngine(query, self._threads, passages)
        return _Loaded(card, tokenizer, engine, min(self._settings.max_batch_tokens, PASS_TOKENS))

    def _model(self) -> _Loaded:
        if self._loaded is None:
            raise Unavailable(f"The encoder {self.name} is not loaded yet. Try again shortly.", retry_after_s=1.0)
        return self._loaded

    def _encode_queries(self, model: _Loaded, texts: Sequence[str]) -> list[Encoding]:
        job = _Job(model.tokenize(texts, "query"), model)
        for batch in job.left:
            with self._precedence.query():
                job.finish(batch, model.engine.query.forward(batch))
        return [job.done[place] for place in range(len(texts))]

    def _stream(self, model: _Loaded, job: _Job) -> None:
        """Takes batches until none is left, beside the other streams."""
        stream = model.engine.passages.get()
        try:
            while batch := job.take():
                with self._precedence.passage():
                    hidden = stream.forward(batch)
                job.finish(batch, hidden)
        finally:
            model.engine.passages.put(stream)

    def _warm_queries(self, model: _Loaded) -> None:
        lengths = {min(self.max_tokens, padded_length(length)) for length in range(1, _WARM_QUERY_TOKENS + 1)}
        for length in sorted(lengths):
            ids = np.full((1, length), model.tokenizer.padding_id, np.int64)
            model.engine.query.forward(Batch(ids, np.ones_like(ids), (0,)))


@dataclass(frozen=True, slots=True)
class _Loaded:
    card: EncoderCard
    tokenizer: TextTokenizer
    engine: EncoderEngine
    pass_tokens: int

    def tokenize(self, texts: Sequence[str], kind: TextKind) -> list[Tokens]:
        return self.tokenizer.tokenize(texts, self.card.prefix(kind))


@dataclass(slots=True)
class _Job:
    """The texts of one call, shared by the streams that work on it."""

    tokens: list[Tokens]
    model: _Loaded
    left: list[Batch] = field(init=False)
    done: dict[int, Encoding] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        model = self.model
        self.left = batches(self.tokens, model.pass_tokens, model.card.max_tokens, model.tokenizer.padding_id)

    def take(self) -> Batch | None:
        with self._lock:
            return self.left.pop(0) if self.left else None

    def finish(self, batch: Batch, hidden: Matrix) -> None:
        for row, place in enumerate(batch.places):
            self.done[place] = _encoding(hidden[row], self.tokens[place], self.model.card.pooling)


def _encoding(hidden: Matrix, tokens: Tokens, pooling: Pooling) -> Encoding:
    own = hidden[: len(tokens.ids)].astype(np.float32, copy=False)
    pooled: Vector = own.sum(axis=0) if pooling == "mean" else own[0]  # the sum points where the mean does
    return Encoding(_normalised(pooled), _normalised(own[tokens.rows]), tokens.offsets)


def _normalised(vectors: Matrix) -> Matrix:
    """Each row (or the one vector) to length 1; a copy, since the hidden states belong to the infer request."""
    length = np.sqrt(np.vecdot(vectors, vectors))[..., None]
    unit: Matrix = vectors / np.maximum(length, _TINY)
    return unit
