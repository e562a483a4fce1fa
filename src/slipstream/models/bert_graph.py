"""A BERT encoder as an OpenVINO graph: token ids and mask → last hidden states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import openvino as ov
import openvino.opset13 as op
from numpy.typing import NDArray

from slipstream.models.lone_lengths import by_length, i64
from slipstream.types import Matrix, Vector

_TINY = np.float32(1e-12)

Width: TypeAlias = Literal["float16", "int8"]
"""How matrices are stored. float16 is widened once, when the CPU plug-in compiles; int8 stays so in memory, is widened
in registers at every pass, and so is read in a quarter of the time."""


@dataclass(frozen=True, slots=True)
class BertShape:
    hidden: int
    layers: int
    heads: int
    intermediate: int
    vocabulary: int
    positions: int
    token_types: int
    epsilon: float
    """Of the layer norms."""


@dataclass(frozen=True, slots=True)
class FourBit:
    """A matrix in llama.cpp's Q4_0 form: (nibble − 8) · scale, in blocks along the rows.

    Source: ggml, block_q4_0.
    """

    nibbles: NDArray[np.uint8]
    """(rows, blocks, block / 2): byte j holds value j of its block (low half) and value j + block / 2 (high half)."""
    scales: NDArray[np.float16]
    """(rows, blocks)"""

    def dense(self) -> Matrix:
        """(rows, blocks · block) float32."""
        levels = np.concatenate([self.nibbles & 15, self.nibbles >> 4], axis=-1).astype(np.float32) - 8
        return (levels * self.scales[:, :, None].astype(np.float32)).reshape(len(levels), -1)


def bert_graph(
    shape: BertShape,
    words: FourBit,
    weights: Mapping[str, NDArray[np.float32]],
    width: Width = "float16",
    lone_lengths: Sequence[int] = (),
) -> ov.Model:
    """Inputs `input_ids`, `attention_mask` (b, n) int64; output `last_hidden_state` (b, n, hidden) float32.

    Weights are named `emb.{pos,type}`, `emb.ln.{w,b}`, `l{i}.{q,k,v,ao,fi,fo}.{w,b}` with matrices as (out, in),
    and `l{i}.{aln,oln}.{w,b}`. Every token has type 0. Word embeddings stay in four bits, because a pass gathers a
    few rows of them. One text of any of `lone_lengths` tokens goes through a version of the layers made for it.
    Source: Devlin et al. 2018 (post-norm encoder, GELU by erf).
    """
    return _Builder(shape, words, weights, width).model(lone_lengths)


class _Builder:
    def __init__(
        self, shape: BertShape, words: FourBit, weights: Mapping[str, NDArray[np.float32]], width: Width
    ) -> None:
        self._shape = shape
        self._words = words
        self._weights = weights
        self._matrix = _float16 if width == "float16" else _int8

    def model(self, lone_lengths: Sequence[int]) -> ov.Model:
        ids = _parameter("input_ids")
        mask = _parameter("attention_mask")
        x = self._norm(self._embed(ids), "emb.ln")
        blocked = op.multiply(op.subtract(op.constant(np.float32(1)), op.convert(mask, "f32")), _f32(-1e9))
        bias = op.unsqueeze(blocked, i64([1, 2]))
        result = op.result(by_length(self._layers, x, bias, self._shape.hidden, lone_lengths))
        result.output(0).set_names({"last_hidden_state"})
        return ov.Model([result], [ids, mask], "bert")

    def _layers(self, x: Any, bias: Any) -> Any:
        for layer in range(self._shape.layers):
            x = self._layer(x, bias, f"l{layer}")
        return x

    def _embed(self, ids: Any) -> Any:
        zero = i64(0)
        pairs = op.convert(op.gather(op.constant(self._words.nibbles), ids, zero), "f32")
        high = op.floor(op.multiply(pairs, _f32(1 / 16)))
        low = op.subtract(pairs, op.multiply(high, _f32(16)))
        levels = op.subtract(op.concat([low, high], -1), _f32(8))
        scales = op.convert(op.gather(op.constant(self._words.scales[:, :, None]), ids, zero), "f32")
        words = op.reshape(op.multiply(levels, scales), i64([0, 0, self._shape.hidden]), True)
        length = op.gather(op.shape_of(ids, "i64"), i64(1), zero)
        places = self._weights["emb.pos"] + self._weights["emb.type"][0]
        return op.add(words, op.gather(op.constant(places), op.range(zero, length, i64(1), "i64"), zero))

    def _layer(self, x: Any, bias: Any, layer: str) -> Any:
        attended = self._attend(x, bias, layer)
        x = self._norm(op.add(self._linear(attended, f"{layer}.ao"), x), f"{layer}.aln")
        inner = op.gelu(self._linear(x, f"{layer}.fi"), "erf")
        return self._norm(op.add(self._linear(inner, f"{layer}.fo"), x), f"{layer}.oln")

    def _attend(self, x: Any, bias: Any, layer: str) -> Any:
        query, key, value = (self._split(part) for part in self._projected(x, layer))
        scores = op.softmax(op.add(op.matmul(query, key, False, True), bias), -1)
        joined = op.transpose(op.matmul(scores, value, False, False), i64([0, 2, 1, 3]))
        return op.reshape(joined, i64([0, 0, self._shape.hidden]), True)

    def _projected(self, x: Any, layer: str) -> list[Any]:
        """Queries, keys and values, each (b, n, hidden), by one multiplication: the wider it is, the less it waits."""
        # The scale of the scores goes into the query's weights: one pass over the scores less.
        scales = {
            "q": np.float32((self._shape.hidden // self._shape.heads) ** -0.5),
            "k": np.float32(1),
            "v": np.float32(1),
        }
        matrix, bias = (
            np.concatenate([self._weights[f"{layer}.{name}.{part}"] * scale for name, scale in scales.items()])
            for part in "wb"
        )
        parts = op.variadic_split(self._product(x, matrix, bias), i64(-1), i64([self._shape.hidden] * 3))
        return [parts.output(place) for place in range(3)]

    def _split(self, x: Any) -> Any:
        """(b, n, hidden) → (b, heads, n, width)."""
        width = self._shape.hidden // self._shape.heads
        return op.transpose(op.reshape(x, i64([0, 0, self._shape.heads, width]), True), i64([0, 2, 1, 3]))

    def _linear(self, x: Any, name: str) -> Any:
        return self._product(x, self._weights[f"{name}.w"], self._weights[f"{name}.b"])

    def _product(self, x: Any, matrix: Matrix, bias: Vector) -> Any:
        return op.add(op.matmul(x, self._matrix(matrix), False, True), op.constant(bias))

    def _norm(self, x: Any, name: str) -> Any:
        centred = op.mvn(x, i64([-1]), True, self._shape.epsilon, "inside_sqrt")
        return op.add(op.multiply(centred, self._vector(f"{name}.w")), self._vector(f"{name}.b"))

    def _vector(self, name: str) -> Any:
        vector: Vector = self._weights[name]
        return op.constant(vector)


def _float16(matrix: Matrix) -> Any:
    return op.convert(op.constant(matrix.astype(np.float16)), "f32")


def _int8(matrix: Matrix) -> Any:
    """Symmetric, one scale an output; convert and multiply are the pattern that the CPU plug-in keeps compressed."""
    scales = np.maximum(np.abs(matrix).max(axis=1, keepdims=True) / np.float32(127), _TINY)
    levels = np.rint(matrix / scales).astype(np.int8)
    return op.multiply(op.convert(op.constant(levels), "f32"), op.constant(scales))


def _parameter(name: str) -> Any:
    parameter = op.parameter([-1, -1], np.int64, name)
    parameter.output(0).set_names({name})
    return parameter


def _f32(value: float) -> Any:
    return op.constant(np.float32(value))
