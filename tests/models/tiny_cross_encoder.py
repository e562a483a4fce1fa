"""A tiny cross-encoder with random weights: as an OpenVINO IR directory, and as plain numpy to compare with."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset13 as op
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

HIDDEN, LAYERS, HEADS, INNER, POSITIONS, EPSILON = 32, 2, 4, 48, 64, 1e-7
WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    *[
        "the",
        "a",
        "flat",
        "has",
        "rooms",
        "two",
        "three",
        "days",
        "leave",
        "of",
        "year",
        "how",
        "many",
        "年",
        "假",
        "天",
    ],
]
Weights = dict[str, NDArray[np.float32]]


def random_weights(seed: int = 5) -> Weights:
    random = np.random.default_rng(seed)
    weights: Weights = {}

    def add(name: str, *shape: int, scale: float = 0.4, around: float = 0.0) -> None:
        weights[name] = (random.standard_normal(shape) * scale + around).astype(np.float32)

    for name, rows in (("word", len(WORDS)), ("position", POSITIONS), ("type", 2)):
        add(name, rows, HIDDEN)
    for norm in ("norm", *(f"{i}.{n}" for i in range(LAYERS) for n in ("attended", "done"))):
        add(f"{norm}.scale", HIDDEN, scale=0.1, around=1.0)
        add(f"{norm}.shift", HIDDEN, scale=0.1)
    sizes = {"q": (HIDDEN, HIDDEN), "k": (HIDDEN, HIDDEN), "v": (HIDDEN, HIDDEN), "o": (HIDDEN, HIDDEN)}
    sizes |= {"in": (INNER, HIDDEN), "out": (HIDDEN, INNER)}
    layers = {f"{i}.{name}": size for i in range(LAYERS) for name, size in sizes.items()}
    for name, (out, into) in {**layers, "pool": (HIDDEN, HIDDEN), "classify": (1, HIDDEN)}.items():
        add(f"{name}.w", out, into)
        add(f"{name}.b", out, scale=0.1)
    return weights


# --- numpy ---


def reference_logit(weights: Weights, ids: Sequence[int], types: Sequence[int]) -> float:
    """One pair, unpadded, in double precision. Source: Devlin et al. 2018, with pooler and classifier."""
    w = {name: value.astype(np.float64) for name, value in weights.items()}
    x = w["word"][list(ids)] + w["position"][: len(ids)] + w["type"][list(types)]
    x = _norm(w, x, "norm")
    for i in range(LAYERS):
        attended = _attend(*(_linear(w, x, f"{i}.{part}") for part in "qkv"))
        x = _norm(w, x + _linear(w, attended, f"{i}.o"), f"{i}.attended")
        inner = _linear(w, x, f"{i}.in")
        inner = inner * (1 + np.vectorize(math.erf)(inner / math.sqrt(2))) / 2
        x = _norm(w, x + _linear(w, inner, f"{i}.out"), f"{i}.done")
    return float(_linear(w, np.tanh(_linear(w, x[:1], "pool")), "classify")[0, 0])


def _linear(w: dict[str, Any], x: Any, name: str) -> Any:
    return x @ w[f"{name}.w"].T + w[f"{name}.b"]


def _norm(w: dict[str, Any], x: Any, name: str) -> Any:
    centred = x - x.mean(axis=-1, keepdims=True)
    spread = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + EPSILON)
    return centred / spread * w[f"{name}.scale"] + w[f"{name}.shift"]


def _attend(query: Any, key: Any, value: Any) -> Any:
    width = HIDDEN // HEADS
    heads = []
    for head in range(HEADS):
        part = slice(head * width, (head + 1) * width)
        scores = query[:, part] @ key[:, part].T / math.sqrt(width)
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        heads.append(scores / scores.sum(axis=-1, keepdims=True) @ value[:, part])
    return np.concatenate(heads, axis=-1)


# --- OpenVINO ---


@dataclass(frozen=True)
class Graph:
    weights: Weights
    outputs: int = 1
    with_types: bool = True

    def model(self) -> ov.Model:
        names = ("input_ids", "attention_mask", *(("token_type_ids",) if self.with_types else ()))
        inputs = {name: op.parameter([-1, -1], np.int64, name) for name in names}
        for name, parameter in inputs.items():
            parameter.output(0).set_names({name})
        ids, mask = inputs["input_ids"], inputs["attention_mask"]
        zero = _i64(0)
        types = inputs.get("token_type_ids") or op.multiply(ids, zero)
        places = op.range(zero, op.gather(op.shape_of(ids), _i64(1), zero), _i64(1), "i64")
        x = op.add(self._rows("word", ids), op.add(self._rows("position", places), self._rows("type", types)))
        x = self._norm(x, "norm")
        blocked = op.multiply(op.subtract(_f32(1), op.convert(mask, "f32")), _f32(-1e9))
        for i in range(LAYERS):
            attended = self._attend(x, op.unsqueeze(blocked, _i64([1, 2])), i)
            x = self._norm(op.add(x, self._linear(attended, f"{i}.o")), f"{i}.attended")
            inner = op.gelu(self._linear(x, f"{i}.in"), "erf")
            x = self._norm(op.add(x, self._linear(inner, f"{i}.out")), f"{i}.done")
        pooled = op.tanh(self._linear(op.gather(x, zero, _i64(1)), "pool"))
        logits = self._linear(pooled, "classify")
        logits = op.concat([logits] * self.outputs, 1) if self.outputs > 1 else logits
        logits.output(0).set_names({"logits"})
        return ov.Model([op.result(logits)], list(inputs.values()), "tiny")

    def _rows(self, name: str, ids: Any) -> Any:
        return op.gather(op.constant(self.weights[name]), ids, _i64(0))

    def _linear(self, x: Any, name: str) -> Any:
        return op.add(op.matmul(x, op.constant(self.weights[f"{name}.w"]), False, True), self._vector(f"{name}.b"))

    def _norm(self, x: Any, name: str) -> Any:
        centred = op.mvn(x, _i64([-1]), True, EPSILON, "inside_sqrt")
        return op.add(op.multiply(centred, self._vector(f"{name}.scale")), self._vector(f"{name}.shift"))

    def _vector(self, name: str) -> Any:
        return op.constant(self.weights[name])

    def _attend(self, x: Any, bias: Any, layer: int) -> Any:
        width = HIDDEN // HEADS

        def split(part: str) -> Any:
            rows = op.reshape(self._linear(x, f"{layer}.{part}"), _i64([0, 0, HEADS, width]), True)
            return op.transpose(rows, _i64([0, 2, 1, 3]))

        scores = op.multiply(op.matmul(split("q"), split("k"), False, True), _f32(width**-0.5))
        mixed = op.matmul(op.softmax(op.add(scores, bias), -1), split("v"), False, False)
        return op.reshape(op.transpose(mixed, _i64([0, 2, 1, 3])), _i64([0, 0, HIDDEN]), True)


def _i64(value: int | list[int]) -> Any:
    return op.constant(np.asarray(value, np.int64))


def _f32(value: float) -> Any:
    return op.constant(np.float32(value))


# --- a directory ---


def tokenizer() -> Tokenizer:
    made = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.pre_tokenizer = Whitespace()
    special = [("[CLS]", 2), ("[SEP]", 3)]
    made.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=special
    )
    return made


def write_cross_encoder(directory: Path, graph: Graph, max_tokens: int = POSITIONS, labels: int = 1) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    ov.save_model(graph.model(), directory / "openvino_model.xml", compress_to_fp16=False)
    tokenizer().save(str(directory / "tokenizer.json"))
    names = {str(i): f"LABEL_{i}" for i in range(labels)}
    config = {"model_type": "bert", "max_position_embeddings": POSITIONS, "id2label": names}
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "tokenizer_config.json").write_text(json.dumps({"model_max_length": max_tokens}))
    return directory
