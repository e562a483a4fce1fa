"""An encoder's graphs in OpenVINO: one for queries that uses all threads, one for passages with a stream a thread."""

from __future__ import annotations

import os
import queue
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov

from slipstream.errors import Bug, ConfigError
from slipstream.models.compiled import Precision, compiled
from slipstream.models.encoder_directory import EncoderDirectory
from slipstream.models.token_batches import Batch
from slipstream.settings import EncoderSettings
from slipstream.types import Matrix

_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})
_QUERY_GROUP = 128
"""Activations that share a scale where the graph's weights are INT8: a seventh faster than groups of 32, the library's
own choice, with vectors within 0.001 in cosine; larger groups gain nothing more."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One infer request: for one thread at a time."""

    request: Any
    inputs: frozenset[str]
    output: Any

    def forward(self, batch: Batch) -> Matrix:
        """(b, n, d) last hidden states. Valid until the next call. Raises Bug when the graph fails."""
        feed = {"input_ids": batch.ids, "attention_mask": batch.mask}
        if "token_type_ids" in self.inputs:
            feed["token_type_ids"] = np.zeros_like(batch.ids)
        try:
            result = self.request.infer(feed, share_inputs=True, share_outputs=True)
        except RuntimeError as error:
            raise Bug(f"The encoder failed on a batch of {batch.ids.shape}: {error}") from error
        hidden: Matrix = result[self.output]
        return hidden


@dataclass(frozen=True, slots=True)
class EncoderEngine:
    query: Pass
    streams: int
    passages: queue.SimpleQueue[Pass]
    """As many as streams: to be taken, and put back."""


def usable_threads(threads: int) -> int:
    """0 stands for the cores that this process may run on."""
    return threads or (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def passage_precision(settings: EncoderSettings) -> Precision:
    """What passages are computed in on this processor.

    Raises ConfigError when bf16 is asked of one that would only emulate it, slower than f32.
    """
    if settings.precision == "f32":
        return "f32"
    native = "BF16" in ov.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    if settings.precision == "bf16" and not native:
        raise ConfigError("This processor has no bf16 arithmetic. Set encoder.precision to auto or f32.")
    return "bf16" if native else "f32"


def load_query(directory: EncoderDirectory, threads: int) -> Pass:
    """Compiles the graph for queries, split between all threads, because nothing runs beside a lone query.

    Raises ConfigError when it is not an encoder's.
    """
    graph = directory.query_graph
    group = {"DYNAMIC_QUANTIZATION_GROUP_SIZE": _QUERY_GROUP}
    model = compiled(graph, "an encoder", threads=threads, streams=1, precision="f32", **group)
    return _pass(model, graph, directory.card.dimensions)


def load_passages(directory: EncoderDirectory, threads: int, precision: Precision) -> queue.SimpleQueue[Pass]:
    """Compiles the graph for passages as one stream a thread, because splitting a small multiplication between
    threads costs more than running two of them side by side.

    Raises ConfigError when it is not an encoder's.
    """
    model = compiled(directory.graph, "an encoder", threads=threads, streams=threads, precision=precision)
    requests: queue.SimpleQueue[Pass] = queue.SimpleQueue()
    for _ in range(threads):
        requests.put(_pass(model, directory.graph, directory.card.dimensions))
    return requests


def _pass(model: Any, graph: Path, dimensions: int) -> Pass:
    inputs = frozenset(name for port in model.inputs for name in port.names)
    if not {"input_ids", "attention_mask"} <= inputs <= _INPUTS:
        raise ConfigError(f"{graph} takes {', '.join(sorted(inputs))}; an encoder takes {', '.join(sorted(_INPUTS))}.")
    return Pass(model.create_infer_request(), inputs, _hidden_states(model, graph, dimensions))


def _hidden_states(model: Any, graph: Path, dimensions: int) -> Any:
    """The output shaped (b, n, d): models may have a pooled one beside it."""
    for output in model.outputs:
        shape = output.partial_shape
        if len(shape) == 3 and (shape[2].is_dynamic or shape[2].get_length() == dimensions):
            return output
    raise ConfigError(f"{graph} has no output shaped (batch, tokens, {dimensions}).")
