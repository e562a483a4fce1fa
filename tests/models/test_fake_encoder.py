"""The fake encoder: shared words are similarity, in both languages, always the same."""

from __future__ import annotations

import numpy as np
import pytest

from slipstream.models.fake_encoder import FakeEncoder
from slipstream.types import Encoding

PASSAGES = [
    "To turn on automatic payments, open the billing settings.",
    "The warranty of the pump model E1234-5 lasts two years.",
    "如何开启自动扣款：请打开账户设置页面。",
    "产品保修期为两年，从购买之日起计算。",
]


def late_interaction(query: Encoding, passage: Encoding) -> float:
    return float((query.tokens @ passage.tokens.T).max(axis=1).mean())


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("question", "best"),
    [
        ("How do I turn on automatic payments?", 0),
        ("What is the warranty of the E1234-5?", 1),
        ("自动扣款怎么开启", 2),
        ("保修期是多久", 3),
    ],
)
async def test_shared_words_win(question: str, best: int) -> None:
    encoder = FakeEncoder()
    (query,) = await encoder.encode([question], "query")
    stored = await encoder.encode(PASSAGES, "passage")
    assert int(np.argmax([query.dense @ passage.dense for passage in stored])) == best
    assert int(np.argmax([late_interaction(query, passage) for passage in stored])) == best


@pytest.mark.anyio
async def test_keeps_the_encoders_contract() -> None:
    encoder = FakeEncoder()
    await encoder.warm_up()
    texts = ["Hello, 你好 world!", "", "  \n", "…", "word " * 2_000]
    encodings = await encoder.encode(texts, "query")
    for text, encoding in zip(texts, encodings, strict=True):
        assert encoding.dense.shape == (encoder.dimensions,)
        assert encoding.tokens.shape == (len(encoding.offsets), encoder.dimensions)
        assert encoding.dense.dtype == encoding.tokens.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(encoding.dense), 1, atol=1e-5)
        np.testing.assert_allclose(np.linalg.norm(encoding.tokens, axis=1), 1, atol=1e-5)
        assert all(text[start:end].strip() for start, end in encoding.offsets)
    assert [texts[0][a:b] for a, b in encodings[0].offsets] == ["Hello", "你", "好", "world"]
    assert encoder.count_tokens(texts) == [4, 0, 0, 0, 2_000]
    assert len(encodings[-1].tokens) == encoder.max_tokens
    await encoder.close()


@pytest.mark.anyio
async def test_is_deterministic() -> None:
    (first,) = await FakeEncoder().encode(["Hello 你好"], "query")
    (second,) = await FakeEncoder().encode(["hello 你好"], "passage")
    np.testing.assert_array_equal(first.dense, second.dense)
    np.testing.assert_array_equal(first.tokens, second.tokens)
