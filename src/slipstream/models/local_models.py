"""Models that the user already has: a GGUF file, or a directory that is ready to load."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from slipstream.errors import ConfigError
from slipstream.models.convert_gguf import languages_of
from slipstream.models.cross_encoder_directory import CrossEncoderDirectory
from slipstream.models.encoder_directory import EncoderDirectory
from slipstream.models.ready import ModelKind, ReadyModel
from slipstream.types import Language

_LLM_FILES = ("openvino_model.xml", "openvino_model.bin", "openvino_tokenizer.xml", "openvino_detokenizer.xml")


def looks_like_path(ref: str) -> bool:
    """Whether a reference names something on disk rather than in a catalogue."""
    return Path(ref).expanduser().exists() or ref.endswith(".gguf") or ref.startswith((".", "~", "/"))


def local_path(ref: str) -> Path:
    """Raises ConfigError when nothing is there."""
    path = Path(ref).expanduser().absolute()
    if not path.exists():
        raise ConfigError(f"There is no model at {path}. Correct the path in the settings.")
    return path


def gguf_in(path: Path, kind: ModelKind) -> Path | None:
    """The GGUF file that a path names, if it names one. Raises ConfigError when it names several."""
    if path.is_file():
        if path.suffix.lower() != ".gguf":
            raise ConfigError(f"{path} is neither a GGUF file nor a directory with an OpenVINO IR.")
        return path
    if kind != "llm" or (path / "openvino_model.xml").exists():
        return None
    found = sorted(path.glob("*.gguf"))
    if len(found) > 1:
        raise ConfigError(f"{path} holds several GGUF files; name one of {', '.join(file.name for file in found)}.")
    return found[0] if found else None


def adopt_directory(path: Path, kind: ModelKind) -> ReadyModel:
    """A directory as it is. Raises ConfigError that names what is missing."""
    adopt = {"encoder": _adopt_encoder, "cross_encoder": _adopt_cross_encoder, "llm": _adopt_llm}
    return adopt[kind](path)


def _adopt_llm(path: Path) -> ReadyModel:
    missing = [name for name in _LLM_FILES if not (path / name).is_file()]
    if missing:
        raise ConfigError(f"{path} cannot be used as a language model: it lacks {', '.join(missing)}.")
    config = read_config(path)
    context = config.get("max_position_embeddings")
    languages = languages_of(str(config.get("model_type", "")))
    return ReadyModel(path.name, "llm", path, languages, "unknown", context if isinstance(context, int) else None)


def _adopt_encoder(path: Path) -> ReadyModel:
    card = EncoderDirectory(path).card
    return ReadyModel(card.name, "encoder", path, encoder_languages(card.name), "unknown", card.max_tokens)


def _adopt_cross_encoder(path: Path) -> ReadyModel:
    card = CrossEncoderDirectory(path).card
    return ReadyModel(card.name, "cross_encoder", path, encoder_languages(card.name), "unknown", card.max_tokens)


def encoder_languages(name: str) -> frozenset[Language]:
    """An encoder says nothing of its languages; its name often does."""
    lowered = name.lower()
    if "zh" in lowered.replace("_", "-").split("-"):
        return frozenset({"zh"})
    if any(sign in lowered for sign in ("multilingual", "bge-m3", "gte-multi", "qwen")):
        return frozenset({"en", "zh", "other"})
    return frozenset({"en"})


def read_config(path: Path) -> dict[str, Any]:
    """The directory's config.json; empty when there is none that can be read."""
    try:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return config if isinstance(config, dict) else {}
