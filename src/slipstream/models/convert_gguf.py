"""GGUF → a directory with an OpenVINO IR, its tokenizer, its chat template and a config.json."""

from __future__ import annotations

import json
from pathlib import Path

from slipstream.errors import ConfigError, DataError
from slipstream.models.conversion import run_conversion
from slipstream.models.gguf_header import GgufHeader, read_gguf_header
from slipstream.types import Language

FAMILIES = frozenset({"llama", "qwen2", "qwen3"})
"""Architectures that OpenVINO GenAI reads from GGUF."""

IR_FILES = tuple(
    f"openvino_{part}.{suffix}" for part in ("model", "tokenizer", "detokenizer") for suffix in ("xml", "bin")
)

_CONFIG_KEYS = {
    "max_position_embeddings": ".context_length",
    "num_hidden_layers": ".block_count",
    "hidden_size": ".embedding_length",
    "num_attention_heads": ".attention.head_count",
    "num_key_value_heads": ".attention.head_count_kv",
    "bos_token_id": "tokenizer.ggml.bos_token_id",
    "eos_token_id": "tokenizer.ggml.eos_token_id",
}


def convert_gguf(source: Path, target_dir: Path) -> None:
    """Writes IR_FILES and config.json into `target_dir`, an empty directory. Seconds to a minute.

    Raises ConfigError when the file is of a kind we cannot serve, DataError when it is broken.
    """
    header = checked_header(source)
    run_conversion("gguf", source, target_dir)
    missing = [name for name in IR_FILES if not (target_dir / name).is_file()]
    if missing:
        raise DataError(
            f"Converting {source.name} left out {', '.join(missing)}. Try another quantisation (Q4_0, Q8_0)."
        )
    config = {key: header.number(gguf_key) for key, gguf_key in _CONFIG_KEYS.items()}
    config["vocab_size"] = header.vocabulary_size or None
    known = {"model_type": header.architecture, **{key: value for key, value in config.items() if value is not None}}
    (target_dir / "config.json").write_text(json.dumps(known, indent=1), encoding="utf-8")


def checked_header(source: Path) -> GgufHeader:
    """The file's header, once it is clear that we can serve the model."""
    header = read_gguf_header(source)
    if header.architecture not in FAMILIES:
        raise ConfigError(
            f"{source.name} is a {header.architecture or 'nameless'} model; "
            f"GGUF files of these families can be served: {', '.join(sorted(FAMILIES))}. Others need an OpenVINO IR."
        )
    if (header.number("split.count") or 1) > 1:
        raise ConfigError(
            f"{source.name} is one part of a split model. Merge the parts first (llama-gguf-split --merge)."
        )
    if not header.text("tokenizer.chat_template"):
        raise ConfigError(f"{source.name} has no chat template: it is a base model. Take its instruct version.")
    return header


def languages_of(architecture: str, declared: tuple[str, ...] = ()) -> frozenset[Language]:
    """Languages a model answers in: those it declares, else those its family is known for."""
    named: frozenset[Language] = frozenset({"en"}) if "en" in declared else frozenset()
    if "zh" in declared or (not declared and architecture.startswith("qwen")):
        named |= {"en", "zh"} if not declared else {"zh"}
    if set(declared) - {"en", "zh"}:
        named |= {"other"}
    return named or frozenset({"en"})
