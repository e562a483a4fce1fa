"""How close the encoder comes to what the processor can do: arithmetic in batches, memory when alone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset13 as op

from slipstream.bench.claims import Side, percentile
from slipstream.models.encoder import OpenVinoEncoder
from slipstream.settings import EncoderSettings

_GEMM = (2048, 1536, 1536)
"""Rows, inner and columns of the multiplication that stands for the machine's fp32 rate."""
_STREAM = (16_384, 4_096)
"""A 256 MiB float32 matrix times a vector: far larger than any cache, so its time is that of reading it."""
_BATCH_TEXTS, _BATCH_LENGTH = 16, 128
_QUERY_LENGTH = 12
_QUERIES = 20
"""Lone queries per repeat, each after memory was read, and so with no weights left in the cache."""
_PRODUCTS = 5
"""Multiplications before and after each batch: together they take about as long as the batch."""
_BUSY_QUERIES, _BUSY_PAUSE_S = 60, 0.05
_KEPT_BYTES = {"i8": 1.0, "u8": 1.0, "i4": 0.5, "u4": 0.5}
"""Element types that the engine reads as they are stored; others it widens to float32 when it compiles."""


@dataclass(frozen=True, slots=True)
class GraphCost:
    """What a forward pass of an encoder graph must compute and read."""

    matrix_weights: int
    """Elements of the constant matrices: each is multiplied with every token. Word embeddings are not among them:
    they are gathered, a row for each token."""
    attentions: int
    hidden: int
    streamed_bytes: int
    """The matrices as the processor reads them in each pass."""

    def flops(self, texts: int, length: int) -> float:
        """2 per matrix weight and token, and 4 · hidden per attention and pair of tokens (scores, then values)."""
        return texts * length * (2.0 * self.matrix_weights + 4.0 * self.attentions * self.hidden * length)

    @property
    def float_bytes(self) -> int:
        """The matrices as float32."""
        return 4 * self.matrix_weights


@dataclass(frozen=True, slots=True)
class EncoderFigures:
    """Both limits and what was reached, measured alternately; one sample a repeat."""

    cost: GraphCost
    """Of the graph for queries; that for passages has the same matrices."""
    peak: Side
    """fp32 matrix multiplication of this machine, GFLOP/s."""
    batch: Side
    """The encoder in batches, tokenising included, GFLOP/s."""
    tokens: Side
    """The same, tokens/s."""
    memory: Side
    """Reading memory, GB/s."""
    floor: Side
    """Time to read the weights once as float32, ms."""
    query: Side
    """Median of a lone query in each repeat, tokenising and thread hand-over included, ms."""
    query_p99_ms: float
    """Over all queries of all repeats."""
    busy: Side
    """Each query while passages are encoded, ms."""

    @property
    def batch_ratio(self) -> float:
        """Median over repeats of the rate reached ÷ the rate possible just before and after."""
        return median(a / b for a, b in zip(self.batch.samples, self.peak.samples, strict=True))

    @property
    def query_ratio(self) -> float:
        """Median over repeats of the time of a query ÷ the time to read the weights as float32."""
        return median(a / b for a, b in zip(self.query.samples, self.floor.samples, strict=True))

    @property
    def query_ratio_of_read(self) -> float:
        """The same ÷ the time to read the weights as the query's graph has them."""
        return self.query_ratio * self.cost.float_bytes / self.cost.streamed_bytes

    @property
    def busy_p99_ms(self) -> float:
        return percentile(self.busy.samples, 99)


async def measure_encoder(encoder: OpenVinoEncoder, settings: EncoderSettings, repeats: int = 9) -> EncoderFigures:
    """Measures on an otherwise idle machine; `encoder` must be warm, and `settings` those it was made with.

    Blocks the event loop for seconds while it measures the limits: for a benchmark process only.
    """
    cost = graph_cost(encoder.query_graph, encoder.dimensions)
    gemm = _product(_GEMM[0], _GEMM[1], _GEMM[2], settings)
    stream = _product(1, _STREAM[1], _STREAM[0], settings)
    passages = [_text(encoder, _BATCH_LENGTH, "passage")] * _BATCH_TEXTS
    query = [_text(encoder, _QUERY_LENGTH, "query")]
    peak, batch, memory, lone = [], [], [], []
    for _ in range(repeats):
        before_s = _seconds(gemm, _PRODUCTS)
        started = time.perf_counter()
        await encoder.encode(passages, "passage")
        batch.append(time.perf_counter() - started)
        peak.append((before_s + _seconds(gemm, _PRODUCTS)) / 2)
        pairs = [(_seconds(stream), await _query_seconds(encoder, query)) for _ in range(_QUERIES)]
        memory.append(median(read for read, _ in pairs))
        lone.append([asked for _, asked in pairs])
    return _figures(cost, peak, batch, memory, lone, await _busy_seconds(encoder, passages, query))


def graph_cost(graph: Path, hidden: int) -> GraphCost:
    """Counts a graph's matrices and attentions."""
    nodes = _executed(ov.Core().read_model(graph))
    products = [node for node in nodes if node.get_type_name() == "MatMul"]
    matrices = [node.input_value(1) for node in products if _is_constant(node.input_value(1))]
    sizes = [int(np.prod(matrix.get_shape())) for matrix in matrices]
    streamed = sum(size * _KEPT_BYTES.get(_stored_type(m), 4.0) for size, m in zip(sizes, matrices, strict=True))
    return GraphCost(sum(sizes), sum(node.get_type_name().endswith("Softmax") for node in nodes), hidden, int(streamed))


def _executed(model: Any) -> list[Any]:
    """What a pass runs: of a choice between versions of the same layers, the one for any length."""
    nodes = model.get_ordered_ops()
    chosen = [node.get_else_body() for node in nodes if node.get_type_name() == "If"]
    return [*nodes, *(inner for body in chosen for inner in _executed(body))]


def _stored_type(value: Any) -> str:
    """The element type of a matrix before it is decompressed."""
    node = value.get_node()
    while node.get_type_name() != "Constant":
        node = node.input_value(0).get_node()
    return str(node.get_output_element_type(0).get_type_name())


def _is_constant(value: Any) -> bool:
    """A matrix, whatever it is decompressed by."""
    node = value.get_node()
    if node.get_type_name() == "Constant":
        return True
    return node.get_type_name() in {"Convert", "Multiply", "Subtract", "Reshape", "Transpose"} and all(
        _is_constant(inner) for inner in node.input_values()
    )


def _figures(
    cost: GraphCost,
    peak: list[float],
    batch: list[float],
    memory: list[float],
    lone: list[list[float]],
    busy: list[float],
) -> EncoderFigures:
    gemm_gflop = 2e-9 * _GEMM[0] * _GEMM[1] * _GEMM[2]
    batch_gflop = 1e-9 * cost.flops(_BATCH_TEXTS, _BATCH_LENGTH)
    stream_gb = 4e-9 * _STREAM[0] * _STREAM[1]
    floor_ms = [1e-6 * cost.float_bytes / (stream_gb / s) for s in memory]
    return EncoderFigures(
        cost,
        peak=Side("fp32 matrix multiplication", "GFLOP/s", tuple(gemm_gflop / s for s in peak)),
        batch=Side("encoder in batches", "GFLOP/s", tuple(batch_gflop / s for s in batch)),
        tokens=Side("encoder in batches", "tokens/s", tuple(_BATCH_TEXTS * _BATCH_LENGTH / s for s in batch)),
        memory=Side("reading memory", "GB/s", tuple(stream_gb / s for s in memory)),
        floor=Side("reading the weights once, as fp32", "ms", tuple(floor_ms)),
        query=Side(f"a lone query of {_QUERY_LENGTH} tokens", "ms", tuple(1e3 * median(times) for times in lone)),
        query_p99_ms=1e3 * percentile([s for times in lone for s in times], 99),
        busy=Side("a query while passages are encoded", "ms", tuple(1e3 * s for s in busy)),
    )


def _product(rows: int, inner: int, columns: int, settings: EncoderSettings) -> Callable[[], Any]:
    """A (rows, inner) · (inner, columns) multiplication by the same engine with the same threads, warmed up."""
    random = np.random.default_rng(0)
    left = op.parameter([rows, inner], np.float32)
    right = op.constant(random.standard_normal((columns, inner), np.float32))
    model = ov.Model([op.result(op.matmul(left, right, False, True))], [left], "product")
    options = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": settings.threads,
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = ov.Core().compile_model(model, "CPU", options).create_infer_request()
    data = random.standard_normal((rows, inner), np.float32)

    def run() -> Any:
        return request.infer([data], share_inputs=True, share_outputs=True)

    run()
    return run


async def _query_seconds(encoder: OpenVinoEncoder, query: list[str]) -> float:
    started = time.perf_counter()
    await encoder.encode(query, "query")
    return time.perf_counter() - started


async def _busy_seconds(encoder: OpenVinoEncoder, passages: list[str], query: list[str]) -> list[float]:
    """Queries that come one by one while all streams have passages to encode."""

    async def keep_busy() -> None:
        while True:
            await encoder.encode(passages, "passage")

    bulk = asyncio.gather(keep_busy(), keep_busy())
    seconds = []
    try:
        for _ in range(_BUSY_QUERIES):
            await asyncio.sleep(_BUSY_PAUSE_S)
            seconds.append(await _query_seconds(encoder, query))
    finally:
        bulk.cancel()
        await asyncio.gather(bulk, return_exceptions=True)
    return seconds


def _seconds(run: Callable[[], Any], times: int = 1) -> float:
    """The mean of as many runs."""
    started = time.perf_counter()
    for _ in range(times):
        run()
    return (time.perf_counter() - started) / times


def _text(encoder: OpenVinoEncoder, length: int, kind: Any) -> str:
    """Words that make an input of exactly `length` tokens."""
    words = length - encoder.input_tokens([""], kind)[0]
    return " ".join(["a"] * words)
