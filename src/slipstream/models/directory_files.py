"""Reads what a model directory in the Hugging Face layout says of itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from slipstream.errors import ConfigError

GRAPHS = (
    "model.xml",
    "openvino_model.xml",
    "openvino/openvino_model.xml",
    "model.onnx",
    "onnx/model.onnx",
)
"""Where a directory's graph may lie, the best first."""
_ROBERTA_OFFSET = 2
"""RoBERTa models number positions from the padding id + 1, so two rows of their table are never a position."""


def first_file(directory: Path, names: tuple[str, ...], what: str) -> Path:
    """The first of the files that is there. Raises ConfigError that names all of them."""
    for name in names:
        if (directory / name).is_file():
            return directory / name
    raise ConfigError(f"The {what} directory {directory} has no {' or '.join(names)}.")


def read_json(path: Path) -> dict[str, Any]:
    """The object that a file holds; empty when there is no such file. Raises ConfigError when it holds no object."""
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must hold a JSON object.")
    return content


def longest_input(directory: Path) -> int | None:
    """The shortest of the limits that its files state, in tokens with specials; None when they state none."""
    config = read_json(directory / "config.json")
    positions = config.get("max_position_embeddings")
    if positions is not None and "roberta" in str(config.get("model_type", "")):
        positions -= _ROBERTA_OFFSET
    limits = (
        positions,
        read_json(directory / "sentence_bert_config.json").get("max_seq_length"),
        read_json(directory / "tokenizer_config.json").get("model_max_length"),
    )
    return min((int(limit) for limit in limits if limit), default=None)
