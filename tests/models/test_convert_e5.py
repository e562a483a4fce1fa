"""The conversion of e5-small-q4.bin: same numbers as a plain forward pass, and no trust in damaged files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from slipstream.errors import DataError
from slipstream.models.convert_e5 import convert_e5
from slipstream.models.encoder import OpenVinoEncoder
from slipstream.models.encoder_directory import EncoderDirectory
from slipstream.settings import EncoderSettings

HEADS, LAYERS = 4, 2


def norm(x: Any, weights: Any, name: str) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12) * weights[f"{name}.w"] + weights[f"{name}.b"]


def plain_forward(weights: Any, ids: list[int]) -> Any:
    """BERT as the paper has it, in float64."""
    w = {name: value.astype(np.float64) for name, value in weights.items()}
    gelu = np.vectorize(lambda v: 0.5 * v * (1 + math.erf(v / math.sqrt(2))))
    n, width = len(ids), w["l0.q.b"].size // HEADS
    x = norm(w["emb.word"][ids] + w["emb.pos"][:n] + w["emb.type"][0], w, "emb.ln")
    for i in range(LAYERS):
        q, k, v = (
            (x @ w[f"l{i}.{c}.w"].T + w[f"l{i}.{c}.b"]).reshape(n, HEADS, width).transpose(1, 0, 2) for c in "qkv"
        )
        scores = np.exp(q @ k.transpose(0, 2, 1) / math.sqrt(width))
        attended = (scores / scores.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(n, -1)
        x = norm(x + attended @ w[f"l{i}.ao.w"].T + w[f"l{i}.ao.b"], w, f"l{i}.aln")
        inner = gelu(x @ w[f"l{i}.fi.w"].T + w[f"l{i}.fi.b"])
        x = norm(x + inner @ w[f"l{i}.fo.w"].T + w[f"l{i}.fo.b"], w, f"l{i}.oln")
    return x


TEXTS = ["hello world", "怎么关闭自动扣款?", "the flat 自动扣款"]


def plain_vectors(tiny: Any, directory: Path, prefixed: str, prefix: str) -> tuple[Any, Any]:
    """(d,) and (m, d), as the encoder should give them."""
    pieces = Tokenizer.from_file(str(directory / "tokenizer.json")).encode(prefixed)
    hidden = plain_forward(tiny.weights, pieces.ids)
    own = hidden[[i for i, (_, end) in enumerate(pieces.offsets) if end > len(prefix)]]
    mean = hidden.mean(0)
    return mean / np.linalg.norm(mean), own / np.linalg.norm(own, axis=1, keepdims=True)


@pytest.mark.anyio
@pytest.mark.parametrize("text", TEXTS)
async def test_graph_equals_a_plain_forward_pass(tiny_e5: Any, tiny_encoder_dir: Path, text: str) -> None:
    encoder = OpenVinoEncoder(tiny_encoder_dir, EncoderSettings())
    await encoder.warm_up()
    (encoding,) = await encoder.encode([text], "passage")
    await encoder.close()
    dense, tokens = plain_vectors(tiny_e5, tiny_encoder_dir, "passage: " + text, "passage: ")
    np.testing.assert_allclose(encoding.tokens, tokens, atol=2e-3)
    assert encoding.dense @ dense > 0.9999


@pytest.mark.anyio
@pytest.mark.parametrize("text", TEXTS)
async def test_query_graph_points_the_same_way(tiny_e5: Any, tiny_encoder_dir: Path, text: str) -> None:
    encoder = OpenVinoEncoder(tiny_encoder_dir, EncoderSettings())
    await encoder.warm_up()
    (encoding,) = await encoder.encode([text], "query")
    await encoder.close()
    assert encoder.query_graph != encoder.graph
    dense, tokens = plain_vectors(tiny_e5, tiny_encoder_dir, "query: " + text, "query: ")
    assert np.einsum("nd,nd->n", encoding.tokens, tokens).min() > 0.999
    assert encoding.dense @ dense > 0.999


def test_tokenizer_follows_sentencepiece(tiny_encoder_dir: Path) -> None:
    tokenizer = Tokenizer.from_file(str(tiny_encoder_dir / "tokenizer.json"))
    assert tokenizer.encode("hello  world").tokens == ["<s>", "▁hello", "▁world", "</s>"]
    assert tokenizer.encode("ｈｅｌｌｏ\tworld\u200b").tokens == ["<s>", "▁hello", "▁world", "</s>"]
    assert tokenizer.encode("关闭自动扣款？").tokens == ["<s>", "▁关闭", "自动", "扣款", "?", "</s>"]
    assert tokenizer.encode("").tokens == ["<s>", "</s>"]


def test_card_says_how_to_use_it(tiny_encoder_dir: Path) -> None:
    card = EncoderDirectory(tiny_encoder_dir).card
    assert card.name == "multilingual-e5-small"
    assert (card.dimensions, card.max_tokens, card.pooling) == (64, 48, "mean")
    assert (card.prefix("query"), card.prefix("passage")) == ("query: ", "passage: ")


@pytest.mark.parametrize("kept", [0, 3, 20, 60, 400, 900, 3_000, -1])
def test_cut_file_is_refused(tiny_e5: Any, tmp_path: Path, kept: int) -> None:
    broken = tmp_path / "cut.bin"
    broken.write_bytes(tiny_e5.path.read_bytes()[:kept])
    with pytest.raises(DataError, match="Pull the model again"):
        convert_e5(broken, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("find", "put", "says"),
    [
        (b"E5S1", b"GGUF", "E5S1"),
        (b"E5S1\x01", b"E5S1\x02", "version 2"),
        (b"E5S1\x01\x00\x00\x00\x40", b"E5S1\x01\x00\x00\x00\x41", "divide"),
        (b"E5S1\x01\x00\x00\x00\x40\x00\x00\x00", b"E5S1\x01\x00\x00\x00\x00\x00\x00\x80", "impossible"),
        (b"l1.fo.w", b"l1.xx.w", "l1.fo.w is missing"),
        (b"emb.word\x01", b"emb.word\x00", "another kind"),
        ("自动".encode(), b"\xff\xfe\xfd\xff\xfe\xfd", "UTF-8"),
    ],
)
def test_damaged_file_is_refused(tiny_e5: Any, tmp_path: Path, find: bytes, put: bytes, says: str) -> None:
    content = tiny_e5.path.read_bytes()
    assert find in content
    broken = tmp_path / "broken.bin"
    broken.write_bytes(content.replace(find, put, 1))
    with pytest.raises(DataError, match=says):
        convert_e5(broken, tmp_path / "out")


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        convert_e5(tmp_path / "none.bin", tmp_path / "out")
