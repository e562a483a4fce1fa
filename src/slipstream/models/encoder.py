"""Any BERT-family encoder on OpenVINO: one forward pass gives the dense vector and the token vectors."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov

from slipstream.errors import Bug, ConfigError, SlipstreamError, Unavailable
from slipstream.models.base import TextKind
from slipstream.models.encoder_directory import EncoderCard, EncoderDirectory, Pooling
from slipstream.models.precedence import Precedence
from slipstream.models.token_batches import Batch, TextTokenizer, Tokens, batches
from slipstream.runtime.workers import Worker
from slipstream.settings import EncoderSettings
from slipstream.types import Encoding, Matrix, Vector

PASS_TOKENS_PER_THREAD = 128
"""A forward pass is no larger than this, padding included. It is what a query may have to wait for, and larger
passes are slower per token too: their activations no longer stay in the cache."""
_TINY = np.float32(1e-12)


class OpenVinoEncoder:
    """Implements models.base.Encoder over an encoder directory (see EncoderDirectory).

    Queries and passages have a thread each; between forward passes, waiting queries go first.
    Raises ConfigError when the directory is incomplete.
    """

    def __init__(self, directory: Path, settings: EncoderSettings) -> None:
        self._directory = EncoderDirectory(directory)
        self._settings = settings
        card = self._directory.card
        self.name = card.name
        self.dimensions = card.dimensions
        self.max_tokens = card.max_tokens
        self.graph = self._directory.graph
        self._loaded: _Loaded | None = None
        self._precedence = Precedence()
        self._queries = Worker("encoder-queries")
        self._passages = Worker("encoder-passages")

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self._model().tokenizer.count(texts)

    def input_tokens(self, texts: Sequence[str], kind: TextKind) -> list[int]:
        """Tokens a forward pass computes for each text: prefix and specials included, cut to `max_tokens`."""
        model = self._model()
        return [len(tokens.ids) for tokens in model.tokenizer.tokenize(texts, model.card.prefix(kind))]

    async def encode(self, texts: Sequence[str], kind: TextKind) -> list[Encoding]:
        model = self._model()
        worker = self._queries if kind == "query" else self._passages
        left = threading.Event()
        try:
            return await worker.run(self._encode, model, tuple(texts), kind, left)
        finally:
            left.set()

    async def warm_up(self) -> None:
        """Loads the model once, then runs a full pass of passages and a query.

        Raises ConfigError when the graph cannot be used.
        """
        if self._loaded is None:
            self._loaded = await self._passages.run(_load, self._directory, self._settings)
        long = "warm " * self.max_tokens
        await self.encode([long] * max(1, self._loaded.pass_tokens // self.max_tokens), "passage")
        await self.encode(["warm"], "query")

    async def close(self) -> None:
        await self._queries.close()
        await self._passages.close()
        self._loaded = None

    def _model(self) -> _Loaded:
        if self._loaded is None:
            raise Unavailable(f"The encoder {self.name} is not loaded yet. Try again shortly.", retry_after_s=1.0)
        return self._loaded

    def _encode(self, model: _Loaded, texts: Sequence[str], kind: TextKind, left: threading.Event) -> list[Encoding]:
        tokens = model.tokenizer.tokenize(texts, model.card.prefix(kind))
        encodings: dict[int, Encoding] = {}
        for batch in batches(tokens, model.pass_tokens, model.tokenizer.padding_id):
            if left.is_set():
                return []  # the caller has gone: nobody reads this
            with self._turn(kind):
                hidden = model.forward(batch, kind)
            for row, place in enumerate(batch.places):
                encodings[place] = _encoding(hidden[row], tokens[place], model.card.pooling)
        return [encodings[place] for place in range(len(texts))]

    def _turn(self, kind: TextKind) -> AbstractContextManager[None]:
        return self._precedence.query() if kind == "query" else self._precedence.passage()


@dataclass(frozen=True, slots=True)
class _Loaded:
    card: EncoderCard
    tokenizer: TextTokenizer
    inputs: frozenset[str]
    output: Any
    pass_tokens: int
    requests: dict[TextKind, Any]

    def forward(self, batch: Batch, kind: TextKind) -> Matrix:
        """(b, n, d) last hidden states. Valid until the next pass of this kind."""
        feed = {"input_ids": batch.ids, "attention_mask": batch.mask, "token_type_ids": np.zeros_like(batch.ids)}
        try:
            result = self.requests[kind].infer(
                {name: feed[name] for name in self.inputs}, share_inputs=True, share_outputs=True
            )
        except RuntimeError as error:
            raise Bug(f"The encoder failed on a batch of {batch.ids.shape}: {error}") from error
        hidden: Matrix = result[self.output]
        return hidden


def _load(directory: EncoderDirectory, settings: EncoderSettings) -> _Loaded:
    tokenizer = TextTokenizer(directory.tokenizer, directory.card.max_tokens)
    try:
        compiled = ov.Core().compile_model(
            directory.graph,
            "CPU",
            {
                "PERFORMANCE_HINT": "LATENCY",
                "INFERENCE_NUM_THREADS": settings.threads,
                "INFERENCE_PRECISION_HINT": "f32",
            },
        )
        inputs = frozenset(name for port in compiled.inputs for name in port.names)
        output = _hidden_states(compiled, directory)
    except SlipstreamError:
        raise
    except RuntimeError as error:
        raise ConfigError(f"{directory.graph} cannot be loaded as an encoder: {error}") from None
    known = {"input_ids", "attention_mask", "token_type_ids"}
    if not {"input_ids", "attention_mask"} <= inputs <= known:
        raise ConfigError(
            f"{directory.graph} takes {', '.join(sorted(inputs))}; an encoder takes {', '.join(sorted(known))}."
        )
    requests: dict[TextKind, Any] = {
        "query": compiled.create_infer_request(),
        "passage": compiled.create_infer_request(),
    }
    threads = int(compiled.get_property("INFERENCE_NUM_THREADS"))
    pass_tokens = min(settings.max_batch_tokens, PASS_TOKENS_PER_THREAD * threads)
    return _Loaded(directory.card, tokenizer, inputs, output, pass_tokens, requests)


def _hidden_states(compiled: Any, directory: EncoderDirectory) -> Any:
    """The output shaped (b, n, d): models may have a pooled one beside it."""
    for output in compiled.outputs:
        shape = output.partial_shape
        if len(shape) == 3 and (shape[2].is_dynamic or shape[2].get_length() == directory.card.dimensions):
            return output
    raise ConfigError(f"{directory.graph} has no output shaped (batch, tokens, {directory.card.dimensions}).")


def _encoding(hidden: Matrix, tokens: Tokens, pooling: Pooling) -> Encoding:
    own = hidden[: len(tokens.ids)].astype(np.float32, copy=False)
    pooled: Vector = own.mean(axis=0) if pooling == "mean" else own[0]
    return Encoding(_normalised(pooled), _normalised(own[tokens.rows]), tokens.offsets)


def _normalised(vectors: Matrix) -> Matrix:
    """Each row (or the one vector) to length 1; a copy, since the hidden states belong to the infer request."""
    length = np.sqrt(np.einsum("...d,...d->...", vectors, vectors))[..., None]
    unit: Matrix = vectors / np.maximum(length, _TINY)
    return unit
