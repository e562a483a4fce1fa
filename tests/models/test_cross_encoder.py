"""The OpenVINO cross-encoder: parity with plain numpy, the query kept whole, bounds, and what is refused."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import numpy as np
import pytest
from models.tiny_cross_encoder import POSITIONS, WORDS, Graph, random_weights, reference_logit, write_cross_encoder
from numpy.typing import NDArray

from slipstream.errors import ConfigError, InvalidRequest, Unavailable
from slipstream.models.cross_encoder import OpenVinoCrossEncoder, logistic
from slipstream.models.cross_encoder_engine import PairPass
from slipstream.models.pair_batches import PairBatch, PairTokenizer, PairTokens, pair_batches
from slipstream.models.provision import Provisioner
from slipstream.settings import CrossEncoderSettings

pytestmark = pytest.mark.anyio

WEIGHTS = random_weights()
SETTINGS = CrossEncoderSettings(threads=2)
CLS, SEP = 2, 3
QUERY = "how many days of leave"
PASSAGES = ("the flat has two rooms", "leave", "a year has three days of leave " * 5, "年 假 天", "")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_cross_encoder(tmp_path_factory.mktemp("cross") / "tiny-reranker", Graph(WEIGHTS))


@pytest.fixture
async def model(directory: Path) -> AsyncIterator[OpenVinoCrossEncoder]:
    model = OpenVinoCrossEncoder(directory, SETTINGS)
    await model.warm_up()
    yield model
    await model.close()


def ids_of(text: str) -> list[int]:
    return [WORDS.index(word) if word in WORDS else 1 for word in text.split()]


def reference_score(query: str, passage: str) -> float:
    head = [CLS, *ids_of(query), SEP]
    tail = [*ids_of(passage), SEP]
    logit = reference_logit(WEIGHTS, head + tail, [0] * len(head) + [1] * len(tail))
    return 1 / (1 + math.exp(-logit))


async def test_scores_equal_those_of_a_plain_implementation(model: OpenVinoCrossEncoder) -> None:
    pairs = [(QUERY, passage) for passage in PASSAGES] + [("flat", "the flat has three rooms")]
    expected = [reference_score(*pair) for pair in pairs]
    assert max(expected) - min(expected) > 0.1, "or the comparison would say little"
    assert await model.score(pairs) == pytest.approx(expected, abs=2e-5)
    for pair, score in zip(pairs, expected, strict=True):
        assert await model.score([pair]) == pytest.approx([score], abs=2e-5), "company and padding change nothing"


async def test_a_graph_without_segments_is_fed_none(tmp_path: Path) -> None:
    weights = {**WEIGHTS, "type": np.zeros_like(WEIGHTS["type"])}
    model = OpenVinoCrossEncoder(write_cross_encoder(tmp_path, Graph(weights, with_types=False)), SETTINGS)
    await model.warm_up()
    [score] = await model.score([("flat", "the flat")])
    ids = [CLS, *ids_of("flat"), SEP, *ids_of("the flat"), SEP]
    assert score == pytest.approx(logistic(reference_logit(weights, ids, [0] * len(ids))), abs=2e-5)
    await model.close()


async def test_the_query_stays_whole_and_the_passage_loses_its_end(directory: Path) -> None:
    made = PairTokenizer(directory / "tokenizer.json", 32)
    query, passage = "how many rooms has the flat", "leave year " * 40
    [pair] = made.tokenize([(query, passage)])
    head = [CLS, *ids_of(query), SEP]
    assert len(pair.ids) == 32
    assert pair.ids.tolist() == head + ids_of(passage)[: 32 - len(head) - 1] + [SEP]
    assert pair.types.tolist() == [0] * len(head) + [1] * (32 - len(head))


async def test_a_truncated_pair_scores_as_the_shorter_passage(model: OpenVinoCrossEncoder) -> None:
    room = POSITIONS - len(ids_of(QUERY)) - 3
    long = "two rooms leave " * 30
    cut = " ".join(long.split()[:room])
    assert await model.score([(QUERY, long)]) == pytest.approx([reference_score(QUERY, cut)], abs=2e-5)


async def test_a_query_without_room_for_a_passage_is_refused(model: OpenVinoCrossEncoder) -> None:
    with pytest.raises(InvalidRequest, match="shorter query") as raised:
        await model.score([("rooms " * 60, "the flat has two rooms " * 5)])
    assert raised.value.code == "query_too_long"
    assert await model.score([("rooms " * 50, "two")]) == [
        pytest.approx(reference_score("rooms " * 50, "two"), abs=2e-5)
    ]


def test_batches_hold_each_pair_once_within_the_bound_and_with_little_padding() -> None:
    random = np.random.default_rng(3)
    lengths = random.integers(16, 400, 96).tolist()
    pairs = [PairTokens(np.full(n, i + 1, np.int64), np.ones(n, np.int64)) for i, n in enumerate(lengths)]
    made = pair_batches(pairs, 512, 400, 0)
    assert sorted(place for batch in made for place in batch.places) == list(range(len(pairs)))
    assert all(batch.ids.size <= 512 for batch in made)
    for batch in made:
        for row, place in enumerate(batch.places):
            n = lengths[place]
            assert (batch.ids[row, :n] == place + 1).all()
            assert not batch.ids[row, n:].any()
            assert batch.mask[row].sum() == batch.types[row].sum() == n
    assert sum(batch.ids.size for batch in made) < 1.08 * sum(lengths)
    assert max(len(batch.ids) for batch in pair_batches([*pairs[:1] * 3], 8, 400, 0)) == 1, "a long one goes alone"


def watched_threads(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of the threads on which a pass ran from now on."""
    names: set[str] = set()
    forward = PairPass.forward

    def watched(self: PairPass, batch: PairBatch) -> NDArray[np.float32]:
        names.add(threading.current_thread().name)
        return forward(self, batch)

    monkeypatch.setattr(PairPass, "forward", watched)
    return names


async def test_inference_is_off_the_loop_and_order_is_kept_under_concurrency(
    model: OpenVinoCrossEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = [(f"{word} rooms", passage) for word in WORDS[4:14] for passage in PASSAGES]
    alone = [(await model.score([pair]))[0] for pair in pairs]
    forwards = watched_threads(monkeypatch)
    groups = await asyncio.gather(*(model.score(pairs[i : i + 7]) for i in range(0, len(pairs), 7)))
    assert [score for group in groups for score in group] == pytest.approx(alone, abs=1e-5)
    assert forwards
    assert all(name.startswith("slipstream-cross-encoder") for name in forwards)


async def test_before_it_is_loaded_it_is_unavailable(directory: Path) -> None:
    model = OpenVinoCrossEncoder(directory, SETTINGS)
    with pytest.raises(Unavailable):
        await model.score([("a", "b")])
    await model.close()


def _two_labels(tmp_path: Path) -> None:
    write_cross_encoder(tmp_path, Graph(WEIGHTS), labels=2)


def _no_tokenizer(tmp_path: Path) -> None:
    write_cross_encoder(tmp_path, Graph(WEIGHTS))
    (tmp_path / "tokenizer.json").unlink()


def _no_length(tmp_path: Path) -> None:
    write_cross_encoder(tmp_path, Graph(WEIGHTS))
    (tmp_path / "config.json").unlink()
    (tmp_path / "tokenizer_config.json").unlink()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [(_two_labels, "2 classes"), (_no_tokenizer, r"tokenizer\.json"), (_no_length, "max_tokens")],
)
def test_an_unusable_directory_is_refused_by_name(tmp_path: Path, spoil: Callable[[Path], None], said: str) -> None:
    spoil(tmp_path)
    with pytest.raises(ConfigError, match=said):
        OpenVinoCrossEncoder(tmp_path, SETTINGS)


async def test_a_graph_with_two_outputs_a_pair_is_refused(tmp_path: Path) -> None:
    model = OpenVinoCrossEncoder(write_cross_encoder(tmp_path, Graph(WEIGHTS, outputs=2)), SETTINGS)
    with pytest.raises(ConfigError, match="one relevance a pair"):
        await model.warm_up()
    await model.close()


def test_the_provisioner_adopts_a_directory(directory: Path, tmp_path: Path) -> None:
    ready = Provisioner(tmp_path, offline=True).ensure(str(directory), "cross_encoder")
    assert (ready.name, ready.kind, ready.path, ready.context_tokens) == (
        "tiny-reranker",
        "cross_encoder",
        directory,
        POSITIONS,
    )


def test_confident_scores_stay_apart() -> None:
    assert logistic(20.0) < logistic(21.0) < logistic(30.0) <= 1.0
    assert 0.0 <= logistic(-800.0) < logistic(-30.0) < logistic(0.0) == 0.5
