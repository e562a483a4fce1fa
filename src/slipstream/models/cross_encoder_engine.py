"""A cross-encoder's graph in OpenVINO: one stream a thread, each of which scores a padded batch of pairs."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slipstream.errors import Bug, ConfigError
from slipstream.models.compiled import compiled
from slipstream.models.pair_batches import PairBatch

_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})


@dataclass(frozen=True, slots=True)
class PairPass:
    """One infer request: for one thread at a time."""

    request: Any
    inputs: frozenset[str]
    output: Any

    def forward(self, batch: PairBatch) -> NDArray[np.float32]:
        """(b,) logits. Raises Bug when the graph fails or gives what is no number."""
        feed = {"input_ids": batch.ids, "attention_mask": batch.mask}
        if "token_type_ids" in self.inputs:
            feed["token_type_ids"] = batch.types
        try:
            result = self.request.infer(feed, share_inputs=True, share_outputs=True)
        except RuntimeError as error:
            raise Bug(f"The cross-encoder failed on a batch of {batch.ids.shape}: {error}") from error
        logits: NDArray[np.float32] = np.array(result[self.output], np.float32).reshape(-1)
        if len(logits) != len(batch.ids) or not np.isfinite(logits).all():
            raise Bug(f"The cross-encoder gave {logits.shape} numbers, or infinite ones, for {len(batch.ids)} pairs.")
        return logits


class CrossEncoderEngine:
    """As many infer requests as threads: splitting a small multiplication between threads costs more than running
    two of them side by side.

    Raises ConfigError when the graph is not a cross-encoder's.
    """

    def __init__(self, graph: Path, threads: int) -> None:
        model = compiled(graph, "a cross-encoder", threads=threads, streams=threads, precision="f32")
        self._idle: queue.SimpleQueue[PairPass] = queue.SimpleQueue()
        for _ in range(threads):
            self._idle.put(_pass(model, graph))

    @contextmanager
    def stream(self) -> Iterator[PairPass]:
        taken = self._idle.get()
        try:
            yield taken
        finally:
            self._idle.put(taken)


def _pass(model: Any, graph: Path) -> PairPass:
    inputs = frozenset(name for port in model.inputs for name in port.names)
    if not {"input_ids", "attention_mask"} <= inputs <= _INPUTS:
        raise ConfigError(
            f"{graph} takes {', '.join(sorted(inputs))}; a cross-encoder takes {', '.join(sorted(_INPUTS))}."
        )
    return PairPass(model.create_infer_request(), inputs, _logits(model, graph))


def _logits(model: Any, graph: Path) -> Any:
    """The output shaped (b, 1) or (b,)."""
    for output in model.outputs:
        shape = output.partial_shape
        if len(shape) == 1 or (len(shape) == 2 and (shape[1].is_dynamic or shape[1].get_length() == 1)):
            return output
    shapes = ", ".join(str(output.partial_shape) for output in model.outputs)
    raise ConfigError(f"{graph} gives {shapes}; a cross-encoder gives one relevance a pair, shaped (pairs, 1).")
