"""A cross-encoder of MiniLM-L6's shape with random weights: it costs what a trained one costs, and knows nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset13 as op
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

from slipstream.models.bert_graph import BertShape, FourBit, bert_graph
from slipstream.models.cross_encoder_directory import CARD, CrossEncoderCard

_HIDDEN, _LAYERS, _HEADS, _INNER, _POSITIONS = 384, 6, 12, 1_536, 512
_BLOCK = 32
NAME = "random-minilm-l6"


def write_random_cross_encoder(directory: Path, tokenizer: Path) -> Path:
    """Writes graph, tokenizer and card; the tokenizer is that of an encoder, with a template for pairs."""
    directory.mkdir(parents=True)
    words = Tokenizer.from_file(str(tokenizer))
    start, end = ("<s>", "</s>") if words.token_to_id("<s>") is not None else ("[CLS]", "[SEP]")
    special = [(name, words.token_to_id(name)) for name in (start, end)]
    words.post_processor = TemplateProcessing(
        single=f"{start} $A {end}", pair=f"{start} $A {end} {end} $B {end}", special_tokens=special
    )
    words.save(str(directory / "tokenizer.json"), pretty=False)
    ov.save_model(_graph(words.get_vocab_size()), directory / "model.xml", compress_to_fp16=False)
    card = CrossEncoderCard(name=NAME, max_tokens=_POSITIONS)
    (directory / CARD).write_text(card.model_dump_json(), encoding="utf-8")
    return directory


def _graph(vocabulary: int) -> ov.Model:
    """The encoder with a pooler and a classifier over its first token."""
    random = np.random.default_rng(0)
    shape = BertShape(_HIDDEN, _LAYERS, _HEADS, _INNER, vocabulary, _POSITIONS, 1, 1e-12)
    blocks = _HIDDEN // _BLOCK
    nibbles = random.integers(0, 256, (vocabulary, blocks, _BLOCK // 2), np.uint8)
    words = FourBit(nibbles, np.full((vocabulary, blocks), 0.01, np.float16))
    encoder = bert_graph(shape, words, _weights(random))
    hidden = encoder.get_results()[0].input_value(0)
    first = op.gather(hidden, op.constant(np.int64(0)), op.constant(np.int64(1)))
    pooled = op.tanh(op.matmul(first, _matrix(random, _HIDDEN, _HIDDEN), False, True))
    logits: Any = op.matmul(pooled, _matrix(random, 1, _HIDDEN), False, True)
    return ov.Model([op.result(logits)], encoder.get_parameters(), NAME)


def _weights(random: np.random.Generator) -> dict[str, NDArray[np.float32]]:
    weights = {"emb.pos": _values(random, _POSITIONS, _HIDDEN), "emb.type": _values(random, 1, _HIDDEN)}
    norms = ["emb.ln"]
    for layer in (f"l{i}" for i in range(_LAYERS)):
        norms += [f"{layer}.aln", f"{layer}.oln"]
        sizes = dict.fromkeys(("q", "k", "v", "ao"), (_HIDDEN, _HIDDEN))
        sizes |= {"fi": (_INNER, _HIDDEN), "fo": (_HIDDEN, _INNER)}
        for name, (out, into) in sizes.items():
            weights[f"{layer}.{name}.w"] = _values(random, out, into)
            weights[f"{layer}.{name}.b"] = np.zeros(out, np.float32)
    for norm in norms:
        weights[f"{norm}.w"] = np.ones(_HIDDEN, np.float32)
        weights[f"{norm}.b"] = np.zeros(_HIDDEN, np.float32)
    return weights


def _values(random: np.random.Generator, *shape: int) -> NDArray[np.float32]:
    return random.standard_normal(shape, np.float32) * np.float32(0.02)


def _matrix(random: np.random.Generator, *shape: int) -> Any:
    return op.constant(_values(random, *shape))
