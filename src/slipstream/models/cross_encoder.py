"""Any BERT-family cross-encoder on OpenVINO: pairs of query and passage → relevance."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from slipstream.errors import Unavailable
from slipstream.models.cross_encoder_directory import CrossEncoderDirectory
from slipstream.models.cross_encoder_engine import CrossEncoderEngine
from slipstream.models.encoder_engine import usable_threads
from slipstream.models.pair_batches import Pair, PairBatch, PairTokenizer, PairTokens, pair_batches
from slipstream.models.token_batches import padded_length
from slipstream.runtime.workers import Worker
from slipstream.settings import CrossEncoderSettings

PASS_TOKENS = 512
"""A forward pass is no larger than this, padding included, except for one longer pair: larger ones are no faster per
token, and nothing of what a caller who has left asked for is computed after them."""


class OpenVinoCrossEncoder:
    """Implements models.base.CrossEncoder over a directory (see CrossEncoderDirectory).

    `score` is `tokenize` and then `forward`; a batcher that gathers the pairs of many callers goes between the two,
    so that it knows their true lengths and a query that fits no pair never gets into anybody's batch.
    Raises ConfigError when the directory is incomplete.
    """

    def __init__(self, directory: Path, settings: CrossEncoderSettings, pass_tokens: int = PASS_TOKENS) -> None:
        self._directory = CrossEncoderDirectory(directory)
        card = self._directory.card
        self.name = card.name
        self.max_tokens = min(card.max_tokens, settings.max_pair_tokens)
        """Longest pair in tokens, specials included; of a longer one the end of the passage is cut."""
        self._pass_tokens = pass_tokens
        self._threads = usable_threads(settings.threads)
        self._loaded: _Loaded | None = None
        self._text = Worker("cross-encoder-text")
        self._passes = Worker("cross-encoder", self._threads)

    async def score(self, pairs: Sequence[Pair]) -> list[float]:
        """Relevance of each pair, 0…1: the logistic function of the model's output.

        Raises Unavailable when the model is not loaded, InvalidRequest for a query too long for any passage.
        """
        return await self.forward(await self.tokenize(pairs))

    async def tokenize(self, pairs: Sequence[Pair]) -> list[PairTokens]:
        return await self._text.run(self._model().tokenizer.tokenize, tuple(pairs))

    async def forward(self, pairs: Sequence[PairTokens]) -> list[float]:
        """One batch, on as many streams as there are threads."""
        model = self._model()
        job = _Job(pair_batches(pairs, self._pass_tokens, self.max_tokens, model.tokenizer.padding_id))
        streams = min(self._threads, len(job.left))
        try:
            await asyncio.gather(*(self._passes.run(_stream, model, job) for _ in range(streams)))
        finally:
            job.left.clear()  # the caller has gone, or a pass has failed: nobody reads the rest
        return [job.done[place] for place in range(len(pairs))]

    async def warm_up(self) -> None:
        """Loads the model once, then runs a full pass of every length on each stream.

        Raises ConfigError when the graph cannot be used.
        """
        if self._loaded is None:
            tokenizer, engine = await asyncio.gather(
                self._text.run(PairTokenizer, self._directory.tokenizer, self.max_tokens),
                self._passes.run(CrossEncoderEngine, self._directory.graph, self._threads),
            )
            self._loaded = _Loaded(tokenizer, engine)
        await self.score([("warm", "up " * self.max_tokens)] * self._threads)
        await self._passes.run(_warm, self._loaded, self.max_tokens)

    async def close(self) -> None:
        await self._text.close()
        await self._passes.close()
        self._loaded = None

    def _model(self) -> _Loaded:
        if self._loaded is None:
            raise Unavailable(f"The cross-encoder {self.name} is not loaded yet. Try again shortly.", retry_after_s=1.0)
        return self._loaded


@dataclass(frozen=True, slots=True)
class _Loaded:
    tokenizer: PairTokenizer
    engine: CrossEncoderEngine


@dataclass(slots=True)
class _Job:
    """The pairs of one call, shared by the streams that work on them."""

    left: list[PairBatch]
    done: dict[int, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self) -> PairBatch | None:
        with self._lock:
            return self.left.pop(0) if self.left else None


def _stream(model: _Loaded, job: _Job) -> None:
    """Takes batches until none is left, beside the other streams."""
    with model.engine.stream() as stream:
        while batch := job.take():
            for place, logit in zip(batch.places, stream.forward(batch).tolist(), strict=True):
                job.done[place] = logistic(logit)


def _warm(model: _Loaded, longest: int) -> None:
    """The engine prepares itself for every new shape, which takes longer than a pass."""
    with model.engine.stream() as stream:
        for length in sorted({min(longest, padded_length(length)) for length in range(1, longest + 1)}):
            rows = max(1, PASS_TOKENS // length)
            ids = np.full((rows, length), model.tokenizer.padding_id, np.int64)
            stream.forward(PairBatch(ids, np.ones_like(ids), np.zeros_like(ids), tuple(range(rows))))


def logistic(logit: float) -> float:
    """1 / (1 + e^-x) in double precision, so that confident scores stay apart."""
    if logit >= 0:
        return 1.0 / (1.0 + math.exp(-logit))
    power = math.exp(logit)
    return power / (1.0 + power)
