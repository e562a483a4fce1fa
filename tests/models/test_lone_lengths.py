"""Versions of a graph for one text: the right one is taken, and each gives what the general one does."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import openvino.opset13 as op
import pytest

from slipstream.bench.encoder_claims import graph_cost
from slipstream.models.convert_e5 import LONE_LENGTHS
from slipstream.models.lone_lengths import by_length
from slipstream.models.token_batches import padded_length

HIDDEN = 2


@pytest.fixture(scope="module")
def marked() -> Any:
    """Each version adds a number of its own."""
    numbers = itertools.count(1)

    def layers(x: Any, bias: Any) -> Any:
        moved = op.transpose(bias, op.constant(np.array([0, 3, 1, 2])))
        flat = op.reshape(moved, op.constant(np.array([0, 0, 1])), True)
        return op.add(op.add(x, flat), op.constant(np.float32(next(numbers))))

    states, bias = op.parameter([-1, -1, HIDDEN], np.float32), op.parameter([-1, 1, 1, -1], np.float32)
    model = ov.Model([op.result(by_length(layers, states, bias, HIDDEN, (4, 6, 8)))], [states, bias])
    return ov.Core().compile_model(model, "CPU")


def version(marked: Any, texts: int, length: int) -> float:
    result = marked([np.zeros((texts, length, HIDDEN), np.float32), np.zeros((texts, 1, 1, length), np.float32)])[0]
    assert result.shape == (texts, length, HIDDEN)
    assert (result == result.flat[0]).all()
    return float(result.flat[0])


def test_each_length_of_one_text_has_its_own_version_and_all_else_shares_one(marked: Any) -> None:
    general = version(marked, 1, 5)
    own = [version(marked, 1, length) for length in (4, 6, 8)]
    assert len({general, *own}) == 4
    assert {version(marked, *shape) for shape in ((2, 4), (3, 8), (1, 3), (1, 9), (4, 4), (1, 12))} == {general}
    assert [version(marked, 1, length) for length in (4, 6, 8)] == own


def test_one_graph_without_lengths() -> None:
    states, bias = op.parameter([-1, -1, HIDDEN], np.float32), op.parameter([-1, 1, 1, -1], np.float32)
    assert by_length(lambda x, _: x, states, bias, HIDDEN, ()) is states


def test_queries_are_padded_to_the_lengths_that_have_versions() -> None:
    assert [padded_length(length) for length in LONE_LENGTHS] == list(LONE_LENGTHS)


@pytest.fixture(scope="module")
def graph(tiny_encoder_dir: Path) -> Any:
    return ov.Core().compile_model(tiny_encoder_dir / "query_model.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})


@pytest.mark.parametrize("length", [*LONE_LENGTHS, 8, 28])
def test_versions_of_an_encoder_give_the_same_states(graph: Any, length: int) -> None:
    ids = np.random.default_rng(length).integers(4, 50, (1, length))
    mask = np.ones_like(ids)
    mask[0, -3:] = 0
    alone = graph([ids, mask])[0].copy()
    in_company = graph([np.repeat(ids, 2, axis=0), np.repeat(mask, 2, axis=0)])[0]
    np.testing.assert_allclose(alone[0], in_company[1], atol=1e-5)


def test_the_cost_of_a_pass_is_counted_once(tiny_encoder_dir: Path) -> None:
    query, passages = (graph_cost(tiny_encoder_dir / name, 64) for name in ("query_model.xml", "model.xml"))
    assert query.matrix_weights == passages.matrix_weights == 2 * (4 * 64 * 64 + 2 * 64 * 96)
    assert query.attentions == passages.attentions == 2
    assert 4 * query.streamed_bytes == passages.streamed_bytes
