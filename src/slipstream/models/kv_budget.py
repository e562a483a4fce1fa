"""How many KV blocks a model gets for a memory budget, from the shapes of its cache inputs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import openvino as ov

from slipstream.errors import ConfigError, DataError
from slipstream.models.vocabulary import last_line

BLOCK_TOKENS = 32
"""Tokens of one KV block of the CPU plugin."""


@dataclass(frozen=True, slots=True)
class KvBudget:
    blocks: int
    bytes_per_block: int

    @property
    def tokens(self) -> int:
        return self.blocks * BLOCK_TOKENS


def kv_budget(directory: Path, gib: float) -> KvBudget:
    """Reads the attention shapes of the IR in `directory`.

    Raises DataError when it is no such model, ConfigError when the budget does not hold a single block.
    """
    try:
        model = ov.Core().read_model(directory / "openvino_model.xml")
    except RuntimeError as error:
        raise DataError(f"{directory} holds no readable OpenVINO model: {last_line(error)}. Pull it again.") from error
    caches = [op.output(0).get_partial_shape() for op in model.get_ops() if op.get_type_name() == "ReadValue"]
    shapes = [(shape[1].get_length(), shape[3].get_length()) for shape in caches if len(shape) == 4]
    if not shapes:
        raise DataError(f"The model in {directory} keeps no attention cache; choose a decoder-only language model.")
    size = sum(_block_bytes(heads, width) for heads, width in shapes)
    blocks = int(gib * 2**30) // size
    if not blocks:
        raise ConfigError(f"engine.kv_cache_gib = {gib} does not hold one block of {size} bytes; raise it.")
    return KvBudget(blocks, size)


def _block_bytes(heads: int, width: int) -> int:
    """Mean bytes of a key or value block in the CPU plugin's U8 layout.

    Values carry a float scale and zero point per token, keys one per channel; measured against
    `PipelineMetrics.cache_size_in_bytes`.
    """
    keys = BLOCK_TOKENS * width + 8 * width
    values = BLOCK_TOKENS * (width + 8)
    return heads * (keys + values) // 2
