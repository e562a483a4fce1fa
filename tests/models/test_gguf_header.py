"""GGUF headers: what they say, and which files are refused before any work is done on them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from slipstream.errors import ConfigError, DataError
from slipstream.models.convert_gguf import checked_header, languages_of
from slipstream.models.gguf_header import read_gguf_header
from slipstream.types import Language

Value = str | int | list[str]


def gguf(path: Path, **metadata: Value) -> Path:
    """A GGUF without tensors; `__` in a key stands for a dot."""
    body = b"".join(_string(key.replace("__", ".")) + _value(value) for key, value in metadata.items())
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(metadata)) + body)
    return path


def _string(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _value(value: Value) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", 8) + _string(value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_string, value))


GOOD: dict[str, Value] = {
    "general__architecture": "qwen2",
    "general__languages": ["zh", "en"],
    "tokenizer__ggml__tokens": ["你", "好"] * 100,
    "tokenizer__chat_template": "{{ messages }}",
    "qwen2__context_length": 32_768,
}


def test_reads_what_matters_and_skips_the_vocabulary(tmp_path: Path) -> None:
    header = checked_header(gguf(tmp_path / "m.gguf", **GOOD))

    assert header.architecture == "qwen2"
    assert header.vocabulary_size == 200
    assert header.number(".context_length") == 32_768
    assert header.texts("general.languages") == ("zh", "en")
    assert header.metadata["tokenizer.ggml.tokens"] == ()


def test_a_file_cut_anywhere_in_its_header_is_refused(tmp_path: Path) -> None:
    path = gguf(tmp_path / "m.gguf", **GOOD)
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match="not a whole GGUF file"):
            read_gguf_header(path)


def test_lengths_that_lie_are_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1 << 62))
    with pytest.raises(DataError):
        read_gguf_header(path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"general__architecture": "mamba"}, "is a mamba model; .* llama, qwen2, qwen3"),
        ({"tokenizer__chat_template": ""}, "no chat template"),
        ({"split__count": 3}, "one part of a split model"),
    ],
)
def test_models_that_cannot_be_served_are_refused(tmp_path: Path, change: dict[str, Value], says: str) -> None:
    path = gguf(tmp_path / "m.gguf", **{**GOOD, **change})
    with pytest.raises(ConfigError, match=says):
        checked_header(path)


@pytest.mark.parametrize(
    ("architecture", "declared", "languages"),
    [
        ("llama", (), {"en"}),
        ("llama", ("en",), {"en"}),
        ("llama", ("zh", "en"), {"en", "zh"}),
        ("llama", ("de",), {"other"}),
        ("qwen3", (), {"en", "zh"}),
        ("qwen2", ("en",), {"en"}),
    ],
)
def test_languages(architecture: str, declared: tuple[str, ...], languages: set[Language]) -> None:
    assert languages_of(architecture, declared) == languages
