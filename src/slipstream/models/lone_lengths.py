"""A part of a graph in several versions: one for each usual length of a lone text, and one for everything else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import openvino as ov
import openvino.opset13 as op

Layers: TypeAlias = Callable[[Any, Any], Any]
"""Hidden states (b, n, d) and the attention's bias (b, 1, 1, n) → hidden states (b, n, d)."""


def by_length(layers: Layers, states: Any, bias: Any, hidden: int, lengths: Sequence[int]) -> Any:
    """`layers` of `states`, through the version made for their length when they are those of one text.

    The engine spends an eighth less on a pass whose shapes it knew when it compiled. All versions share their
    weights; each costs its plan, and the time to make it.
    """
    if not lengths:
        return layers(states, bias)
    fixed = _body(lambda x, b: _fixed(layers, x, b, hidden, lengths), hidden)
    return _chosen(_is_one_text(states, lengths), fixed, _body(layers, hidden), states, bias)


def _fixed(layers: Layers, states: Any, bias: Any, hidden: int, lengths: Sequence[int]) -> Any:
    """For one text that has one of the lengths."""
    length, *others = lengths

    def own(x: Any, b: Any) -> Any:
        return layers(_shaped(x, 1, length, hidden), _shaped(b, 1, 1, 1, length))

    if not others:
        return own(states, bias)
    rest = _body(lambda x, b: _fixed(layers, x, b, hidden, others), hidden)
    return _chosen(_is_one_text(states, (length,)), _body(own, hidden), rest, states, bias)


def _chosen(condition: Any, then: ov.Model, otherwise: ov.Model, states: Any, bias: Any) -> Any:
    choice = op.if_op(condition.output(0))
    choice.set_then_body(then)
    choice.set_else_body(otherwise)
    for value, one, other in zip((states, bias), then.get_parameters(), otherwise.get_parameters(), strict=True):
        choice.set_input(value.output(0), one, other)
    choice.set_output(then.get_results()[0], otherwise.get_results()[0])
    return choice


def _body(layers: Layers, hidden: int) -> ov.Model:
    states = op.parameter([-1, -1, hidden], np.float32)
    bias = op.parameter([-1, 1, 1, -1], np.float32)
    return ov.Model([op.result(layers(states, bias))], [states, bias])


def _is_one_text(states: Any, lengths: Sequence[int]) -> Any:
    """Whether the batch is one text of any of the lengths."""
    size = op.gather(op.shape_of(states, "i64"), i64([0, 1]), i64(0))
    same = op.reduce_logical_and(op.equal(size, i64([[1, length] for length in lengths])), i64([1]), False)
    return op.reduce_logical_or(same, i64([0]), False)


def _shaped(x: Any, *shape: int) -> Any:
    return op.reshape(x, i64(list(shape)), False)


def i64(value: int | list[int] | list[list[int]]) -> Any:
    """An integer constant: axes, shapes."""
    return op.constant(np.asarray(value, np.int64))
