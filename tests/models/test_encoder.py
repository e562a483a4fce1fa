"""The OpenVINO encoder: order, spans, bounds, threads, errors, and any BERT-family directory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset13 as op
import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from slipstream.errors import Bug, ConfigError, Unavailable
from slipstream.models.encoder import OpenVinoEncoder
from slipstream.models.encoder_engine import passage_precision
from slipstream.models.provision import Provisioner
from slipstream.settings import EncoderSettings, ModelsSettings
from slipstream.types import Encoding

SETTINGS = EncoderSettings(max_batch_tokens=64, precision="f32")
"""In f32, where a text's vectors are the same to 0.0001 whatever texts share its batch."""


@asynccontextmanager
async def warm(*encoders: OpenVinoEncoder) -> AsyncIterator[None]:
    for encoder in encoders:
        await encoder.warm_up()
    yield
    for encoder in encoders:
        await encoder.close()


def assert_alike(own: Encoding, exact: Encoding, dense: float) -> None:
    """Dense vectors of a cosine of at least `dense`, token vectors of .999."""
    assert own.dense @ exact.dense >= dense
    assert np.einsum("nd,nd->n", own.tokens, exact.tokens).min() >= 0.999


@pytest.fixture
async def encoder(tiny_encoder_dir: Path) -> AsyncIterator[OpenVinoEncoder]:
    encoder = OpenVinoEncoder(tiny_encoder_dir, SETTINGS)
    await encoder.warm_up()
    yield encoder
    await encoder.close()


@pytest.mark.anyio
async def test_order_and_values_do_not_depend_on_company(encoder: OpenVinoEncoder) -> None:
    texts = ["the flat", "hello " * 30, "关闭自动扣款", "", "a", "hello world", "x y z " * 8]
    together = await encoder.encode(texts, "passage")
    for text, encoding in zip(texts, together, strict=True):
        (alone,) = await encoder.encode([text], "passage")
        np.testing.assert_allclose(encoding.dense, alone.dense, atol=1e-4)
        np.testing.assert_allclose(encoding.tokens, alone.tokens, atol=1e-4)
        np.testing.assert_array_equal(encoding.offsets, alone.offsets)


@pytest.mark.anyio
async def test_shapes_types_and_lengths(encoder: OpenVinoEncoder) -> None:
    for encoding in await encoder.encode(["hello world", "关闭自动扣款"], "query"):
        assert encoding.dense.dtype == encoding.tokens.dtype == np.float32
        assert encoding.offsets.dtype == np.int32
        assert encoding.dense.shape == (encoder.dimensions,)
        assert encoding.tokens.shape == (len(encoding.offsets), encoder.dimensions)
        np.testing.assert_allclose(np.linalg.norm(encoding.dense), 1, atol=1e-5)
        np.testing.assert_allclose(np.linalg.norm(encoding.tokens, axis=1), 1, atol=1e-5)
        encoding.tokens[0] = 0  # the caller's own memory


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["query", "passage"])
async def test_spans_are_of_the_text_given(encoder: OpenVinoEncoder, kind: Any) -> None:
    texts = ["  hello the  flat ", "关闭自动扣款？", "ｈｅｌｌｏ world"]
    pieces = [
        [text[start:end] for start, end in encoding.offsets]
        for text, encoding in zip(texts, await encoder.encode(texts, kind), strict=True)
    ]
    assert pieces == [["hello", "the", "flat"], ["关闭", "自动", "扣款", "？"], ["ｈｅｌｌｏ", "world"]]


@pytest.mark.anyio
@pytest.mark.parametrize("text", ["", "   ", "\n\t"])
async def test_empty_text_has_a_dense_vector_only(encoder: OpenVinoEncoder, text: str) -> None:
    (encoding,) = await encoder.encode([text], "passage")
    assert encoding.tokens.shape == (0, encoder.dimensions)
    assert encoding.offsets.shape == (0, 2)
    assert np.isfinite(encoding.dense).all()
    assert encoder.count_tokens([text]) == [0]


@pytest.mark.anyio
async def test_no_texts(encoder: OpenVinoEncoder) -> None:
    assert await encoder.encode([], "query") == []
    assert encoder.count_tokens([]) == []


@pytest.mark.anyio
async def test_long_text_is_cut_at_its_end(encoder: OpenVinoEncoder) -> None:
    text = "hello world " * 500
    assert encoder.input_tokens([text], "passage") == [encoder.max_tokens]
    (encoding,) = await encoder.encode([text], "passage")
    overhead = encoder.input_tokens([""], "passage")[0]
    assert len(encoding.tokens) == encoder.max_tokens - overhead
    assert encoding.offsets[0].tolist() == [0, 5]
    assert encoder.count_tokens([text]) == [1_000]


@pytest.mark.anyio
async def test_lone_surrogates_do_no_harm(encoder: OpenVinoEncoder) -> None:
    (encoding,) = await encoder.encode(["\ud83d hello"], "query")
    assert encoding.offsets[-1].tolist() == [2, 7]
    assert encoder.count_tokens(["\ud83d hello"])[0] >= 1


@pytest.mark.anyio
async def test_many_threads_share_one_encoder(encoder: OpenVinoEncoder) -> None:
    texts = [["hello " * (n % 9 + 1), "关闭自动扣款 " * (n % 5 + 1)] for n in range(32)]
    expected = [encoder.count_tokens(pair) for pair in texts]

    def count_often(pair: list[str]) -> list[list[int]]:
        return [encoder.count_tokens(pair) for _ in range(40)]

    with ThreadPoolExecutor(32) as pool:
        counting = [pool.submit(count_often, pair) for pair in texts]
        encoded = await asyncio.gather(*(encoder.encode(pair, "query") for pair in texts))
        counted = [await asyncio.wrap_future(future) for future in counting]
    assert counted == [[count] * 40 for count in expected]
    for pair, encodings in zip(texts, encoded, strict=True):
        np.testing.assert_allclose(encodings[0].dense, (await encoder.encode(pair, "query"))[0].dense, atol=1e-4)


@pytest.mark.anyio
async def test_streams_share_the_texts_of_a_call(tiny_encoder_dir: Path) -> None:
    one = OpenVinoEncoder(tiny_encoder_dir, SETTINGS.model_copy(update={"threads": 1}))
    three = OpenVinoEncoder(tiny_encoder_dir, SETTINGS.model_copy(update={"threads": 3}))
    texts = ["hello world " * (n % 17) + "关闭" * (n % 3) for n in range(60)]
    await asyncio.gather(one.warm_up(), three.warm_up())
    expected = await one.encode(texts, "passage")
    for call in await asyncio.gather(*(three.encode(texts, "passage") for _ in range(4))):
        for encoding, same in zip(call, expected, strict=True):
            np.testing.assert_allclose(encoding.dense, same.dense, atol=1e-5)
            np.testing.assert_array_equal(encoding.offsets, same.offsets)
    await one.close()
    await three.close()


@pytest.mark.parametrize(("capabilities", "precision"), [(["FP32", "BF16"], "bf16"), (["FP32", "INT8"], "f32")])
def test_auto_takes_bf16_where_it_is_native(
    monkeypatch: pytest.MonkeyPatch, capabilities: list[str], precision: str
) -> None:
    monkeypatch.setattr(ov.Core, "get_property", lambda *_: capabilities)
    assert passage_precision(EncoderSettings()) == precision
    assert passage_precision(EncoderSettings(precision="f32")) == "f32"


def test_bf16_is_refused_where_it_is_emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ov.Core, "get_property", lambda *_: ["FP32", "INT8"])
    with pytest.raises(ConfigError, match=r"encoder\.precision"):
        passage_precision(EncoderSettings(precision="bf16"))


@pytest.mark.anyio
async def test_a_caller_who_leaves_harms_nobody(encoder: OpenVinoEncoder) -> None:
    leaving = asyncio.create_task(encoder.encode(["hello " * 30] * 200, "passage"))
    await asyncio.sleep(0)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert len(await encoder.encode(["hello"], "passage")) == 1


@pytest.mark.anyio
async def test_unloaded_and_closed_encoders_say_so(tiny_encoder_dir: Path) -> None:
    encoder = OpenVinoEncoder(tiny_encoder_dir, SETTINGS)
    with pytest.raises(Unavailable, match="not loaded"):
        await encoder.encode(["hello"], "query")
    with pytest.raises(Unavailable, match="not loaded"):
        encoder.count_tokens(["hello"])
    await encoder.warm_up()
    await encoder.close()
    with pytest.raises(Unavailable):
        await encoder.encode(["hello"], "query")


# --- directories of other makes -----------------------------------------------------------------

WORDS = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "hello": 4, "world": 5, "你好": 6}


def write_directory(target: Path, length: int = -1, extra_input: str | None = None) -> Path:
    """Word embeddings plus type embeddings, with a pooled output before the hidden states."""
    target.mkdir()
    ids, mask, types = (
        op.parameter([-1, length], np.int64, n) for n in ("input_ids", "attention_mask", "token_type_ids")
    )
    inputs = [ids, mask, types]
    names = ["input_ids", "attention_mask", extra_input or "token_type_ids"]
    for parameter, name in zip(inputs, names, strict=True):
        parameter.output(0).set_names({name})
    table = np.random.default_rng(0).standard_normal((len(WORDS), 8)).astype(np.float32)
    axis = op.constant(np.int64(0))
    hidden = op.add(op.gather(op.constant(table), ids, axis), op.gather(op.constant(table * 0), types, axis))
    seen = op.multiply(hidden, op.unsqueeze(op.convert(mask, "f32"), op.constant(np.int64(2))))
    pooled = op.reduce_mean(seen, op.constant(np.int64(1)))
    ov.save_model(ov.Model([op.result(pooled), op.result(hidden)], inputs, "any"), target / "openvino_model.xml")
    tokenizer = Tokenizer(WordLevel(WORDS, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(pad_id=0, pad_token="[PAD]", length=16)
    tokenizer.save(str(target / "tokenizer.json"))
    (target / "config.json").write_text(
        '{"hidden_size": 8, "max_position_embeddings": 34, "model_type": "xlm-roberta"}'
    )
    return target


def pool_by(directory: Path, *modes: str) -> None:
    (directory / "1_Pooling").mkdir()
    (directory / "1_Pooling" / "config.json").write_text(json.dumps({f"pooling_mode_{mode}": True for mode in modes}))


@pytest.mark.anyio
async def test_sentence_transformers_directory(tmp_path: Path) -> None:
    directory = write_directory(tmp_path / "any")
    pool_by(directory, "cls_token")
    (directory / "config_sentence_transformers.json").write_text('{"prompts": {"query": "hello "}}')
    encoder = OpenVinoEncoder(directory, SETTINGS)
    assert (encoder.name, encoder.dimensions, encoder.max_tokens) == ("any", 8, 32)
    await encoder.warm_up()
    one, two = await encoder.encode(["world 你好", "你好"], "query")
    await encoder.close()
    np.testing.assert_allclose(one.dense, two.dense, atol=1e-6)  # both begin with [CLS]
    assert one.offsets.tolist() == [[0, 5], [6, 8]]
    np.testing.assert_allclose(one.tokens[1], two.tokens[0], atol=1e-6)


@pytest.mark.anyio
async def test_failing_graph_is_a_bug_with_its_shape(tmp_path: Path) -> None:
    encoder = OpenVinoEncoder(write_directory(tmp_path / "any", length=32), SETTINGS)
    with pytest.raises(Bug, match=r"\(1, 8\)"):
        await encoder.warm_up()
    await encoder.close()


def test_incomplete_directories_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        OpenVinoEncoder(tmp_path / "none", SETTINGS)
    directory = write_directory(tmp_path / "any")
    (directory / "config.json").unlink()
    with pytest.raises(ConfigError, match="dimensions"):
        OpenVinoEncoder(directory, SETTINGS)
    (directory / "encoder.json").write_text("{")
    with pytest.raises(ConfigError, match="not valid JSON"):
        OpenVinoEncoder(directory, SETTINGS)
    (directory / "tokenizer.json").unlink()
    with pytest.raises(ConfigError, match=r"no tokenizer\.json"):
        OpenVinoEncoder(directory, SETTINGS)
    (directory / "openvino_model.xml").unlink()
    with pytest.raises(ConfigError, match=r"model\.onnx"):
        OpenVinoEncoder(directory, SETTINGS)


def test_other_pooling_is_refused(tmp_path: Path) -> None:
    directory = write_directory(tmp_path / "any")
    pool_by(directory, "lasttoken")
    with pytest.raises(ConfigError, match="lasttoken"):
        OpenVinoEncoder(directory, SETTINGS)


@pytest.mark.anyio
async def test_unusable_files_are_refused_when_loaded(tmp_path: Path) -> None:
    strange = OpenVinoEncoder(write_directory(tmp_path / "strange", extra_input="pixel_values"), SETTINGS)
    with pytest.raises(ConfigError, match="pixel_values"):
        await strange.warm_up()
    directory = write_directory(tmp_path / "broken")
    (directory / "tokenizer.json").write_text("{}")
    broken = OpenVinoEncoder(directory, SETTINGS)
    with pytest.raises(ConfigError, match="tokenizer"):
        await broken.warm_up()
    (write_directory(tmp_path / "cut") / "openvino_model.xml").write_text("<net")
    cut = OpenVinoEncoder(tmp_path / "cut", SETTINGS)
    with pytest.raises(ConfigError, match="cannot be loaded"):
        await cut.warm_up()
    for encoder in (strange, broken, cut):
        await encoder.close()


# --- the real model -----------------------------------------------------------------------------


@pytest.mark.models
@pytest.mark.anyio
async def test_real_query_graph_gives_the_vectors_of_the_full_one(tmp_path: Path) -> None:
    ready = await asyncio.to_thread(Provisioner(ModelsSettings().cache_dir).ensure, "multilingual-e5-small", "encoder")
    for name in ("model.xml", "model.bin", "tokenizer.json", "encoder.json"):
        (tmp_path / name).symlink_to(ready.path / name)
    fast, full = OpenVinoEncoder(ready.path, EncoderSettings()), OpenVinoEncoder(tmp_path, EncoderSettings())
    assert fast.query_graph != fast.graph
    assert full.query_graph == full.graph
    queries = [
        *("how do I turn on automatic payments?", "如何开启自动扣款功能？", "RRF", "法国的首都是哪里？"),
        "Which error is raised when the request body is larger than the limit, and how can the limit be changed?",
        "为什么在升级到新版本之后，我的应用程序在处理大文件上传时会返回超时错误，应该怎样修改配置才能解决？",
    ]
    async with warm(fast, full):
        for own, exact in zip(await fast.encode(queries, "query"), await full.encode(queries, "query"), strict=True):
            assert_alike(own, exact, 0.999)


@pytest.mark.models
@pytest.mark.anyio
async def test_real_passages_in_either_precision_have_the_same_vectors() -> None:
    ready = await asyncio.to_thread(Provisioner(ModelsSettings().cache_dir).ensure, "multilingual-e5-small", "encoder")
    usual, exact = (OpenVinoEncoder(ready.path, EncoderSettings(precision=p)) for p in ("auto", "f32"))
    passages = [
        "To enable automatic payments, open the settings and choose the account to be charged. " * 9,
        "在设置里可以打开自动扣款，扣款日为每月一日，余额不足时会再次尝试。" * 7,
        "ERR_QUOTA_4096: the request body is larger than 10 MB.",
        "巴黎是法国的首都和最大的城市。",
    ]
    if usual.passage_precision == "f32":
        pytest.skip("this processor has no bf16 arithmetic: both would be the same")
    async with warm(usual, exact):
        pairs = zip(await usual.encode(passages, "passage"), await exact.encode(passages, "passage"), strict=True)
        for own, same in pairs:
            assert_alike(own, same, 0.9999)
            assert (own.dense != same.dense).any()  # or it was not computed in bf16
            np.testing.assert_array_equal(own.offsets, same.offsets)


@pytest.mark.models
@pytest.mark.anyio
async def test_real_model_ranks_across_languages() -> None:
    ready = await asyncio.to_thread(Provisioner(ModelsSettings().cache_dir).ensure, "multilingual-e5-small", "encoder")
    encoder = OpenVinoEncoder(ready.path, EncoderSettings())
    await encoder.warm_up()
    queries = [
        "how do I turn on automatic payments?",
        "如何开启自动扣款功能？",
        "what is the capital of France?",
        "法国的首都是哪里？",
    ]
    passages = [
        "To enable automatic payments, open the settings.",
        "在设置里可以打开自动扣款。",
        "Paris is the capital and largest city of France.",
        "巴黎是法国的首都和最大的城市。",
    ]
    asked = np.stack([encoding.dense for encoding in await encoder.encode(queries, "query")])
    stored = np.stack([encoding.dense for encoding in await encoder.encode(passages, "passage")])
    await encoder.close()
    scores = asked @ stored.T
    assert scores.argmax(axis=1).tolist() == [0, 1, 2, 3]
    english, chinese = scores[:, ::2], scores[:, 1::2]  # in either language alone, the right subject by a distance
    for payments, paris in (english.T, chinese.T):
        assert (payments - paris)[:2].min() > 0.05
        assert (paris - payments)[2:].min() > 0.05
