"""Converts e5-small-q4.bin into an encoder directory: OpenVINO graphs, tokenizer and card."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino as ov
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer
from tokenizers.models import Unigram
from tokenizers.normalizers import NFKC, Nmt, Replace
from tokenizers.normalizers import Sequence as Normalizers
from tokenizers.pre_tokenizers import Metaspace, WhitespaceSplit
from tokenizers.pre_tokenizers import Sequence as PreTokenizers
from tokenizers.processors import TemplateProcessing

from slipstream.models.bert_graph import Width, bert_graph
from slipstream.models.e5_file import E5File, Vocabulary
from slipstream.models.encoder_directory import EncoderCard

NAME = "multilingual-e5-small"
LONE_LENGTHS = (12, 16, 20)
"""In tokens: one query of such a length, padding included, has its own version of the layers. Most questions in
English and Chinese do; each length costs 17 MB, and half a second of computing at every start."""
_GRAPHS: tuple[tuple[str, Width, tuple[int, ...]], ...] = (
    ("model.xml", "float16", ()),
    ("query_model.xml", "int8", LONE_LENGTHS),
)


def convert_e5(source: Path, target_dir: Path) -> None:
    """Writes `model.xml` and `query_model.xml` with their `.bin`, `tokenizer.json` and `encoder.json`.

    The second graph is the same with int8 matrices and versions for LONE_LENGTHS, for queries. The directory is made
    when missing.

    Raises DataError when the source is not a sound e5-small-q4.bin.
    """
    file = E5File(source)
    shape = file.shape
    words = file.four_bit("emb.word", shape.vocabulary, shape.hidden)
    weights = read_weights(file)
    tokenizer = unigram_tokenizer(file.vocabulary)
    card = EncoderCard(
        name=NAME,
        dimensions=shape.hidden,
        max_tokens=shape.positions,
        pooling="mean",
        query_prefix="query: ",
        passage_prefix="passage: ",
    )
    target_dir.mkdir(parents=True, exist_ok=True)
    for name, width, lengths in _GRAPHS:
        ov.save_model(bert_graph(shape, words, weights, width, lengths), target_dir / name, compress_to_fp16=False)
    tokenizer.save(str(target_dir / "tokenizer.json"), pretty=False)
    (target_dir / "encoder.json").write_text(card.model_dump_json(indent=2) + "\n", encoding="utf-8")


def read_weights(file: E5File) -> dict[str, NDArray[np.float32]]:
    """All weights but the word embeddings, float32, matrices as (out, in)."""
    shape = file.shape
    hidden, inner = shape.hidden, shape.intermediate
    weights = {
        "emb.pos": file.vector("emb.pos", shape.positions * hidden).reshape(-1, hidden),
        "emb.type": file.vector("emb.type", shape.token_types * hidden).reshape(-1, hidden),
    }
    norms = ["emb.ln"]
    for layer in (f"l{i}" for i in range(shape.layers)):
        norms += [f"{layer}.aln", f"{layer}.oln"]
        sizes = dict.fromkeys(("q", "k", "v", "ao"), (hidden, hidden)) | {
            "fi": (inner, hidden),
            "fo": (hidden, inner),
        }
        for name, (rows, columns) in sizes.items():
            weights[f"{layer}.{name}.w"] = file.matrix(f"{layer}.{name}.w", rows, columns)
            weights[f"{layer}.{name}.b"] = file.vector(f"{layer}.{name}.b", rows)
    for norm in norms:
        weights[f"{norm}.w"] = file.vector(f"{norm}.w", hidden)
        weights[f"{norm}.b"] = file.vector(f"{norm}.b", hidden)
    return weights


def unigram_tokenizer(vocabulary: Vocabulary) -> Tokenizer:
    """`<s> … </s>` around SentencePiece's unigram pieces, on nmt_nfkc-normalised text.

    Source: Kudo & Richardson 2018; the order of steps is that of XLM-RoBERTa's fast tokenizer.
    """
    scored = list(zip(vocabulary.pieces, vocabulary.scores, strict=True))
    tokenizer = Tokenizer(Unigram(scored, unk_id=vocabulary.unknown, byte_fallback=False))
    tokenizer.normalizer = Normalizers([Nmt(), NFKC(), Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = PreTokenizers([WhitespaceSplit(), Metaspace(replacement="▁", prepend_scheme="always")])
    start, end = vocabulary.pieces[vocabulary.start], vocabulary.pieces[vocabulary.end]
    tokenizer.post_processor = TemplateProcessing(
        single=f"{start} $A {end}",
        special_tokens=[(start, vocabulary.start), (end, vocabulary.end)],
    )
    return tokenizer
