"""A tiny random encoder in the e5-small-q4.bin format, written by the test and read by the product."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from slipstream.models.convert_e5 import convert_e5

HIDDEN, LAYERS, HEADS, INNER, POSITIONS = 64, 2, 4, 96, 48
PIECES = [
    *("<s>", "<pad>", "</s>", "<unk>", "▁", "▁query", "▁passage", ":"),
    *("▁hello", "▁world", "▁the", "▁flat", "自动", "扣款", "▁关闭", "开启"),
    *"abcdefghijklmnopqrstuvwxyz0123456789.-?怎么关闭动扣款如何",
]


@dataclass(frozen=True)
class TinyE5:
    path: Path
    weights: dict[str, NDArray[np.float32]]
    """Every tensor as float32, dequantised by the writer."""
    directory: list[tuple[str, int]] = field(default_factory=list)
    """Name and file offset of each tensor."""


def _blocks(random: np.random.Generator, rows: int, columns: int) -> tuple[bytes, NDArray[np.float32]]:
    nibbles = random.integers(0, 16, (rows, columns // 32, 32), dtype=np.uint8)
    scales = (random.uniform(0.5, 1.5, (rows, columns // 32)) * 0.02).astype(np.float16)
    packed = nibbles[:, :, :16] | (nibbles[:, :, 16:] << 4)
    stored = np.concatenate([scales[:, :, None].view(np.uint8), packed], axis=2)
    dense = (nibbles.astype(np.float32) - 8) * scales[:, :, None].astype(np.float32)
    return stored.tobytes(), dense.reshape(rows, columns)


def write_tiny_e5(path: Path) -> TinyE5:
    random = np.random.default_rng(7)
    rows = len(PIECES) + 3
    stored: dict[str, tuple[int, bytes]] = {}
    weights: dict[str, NDArray[np.float32]] = {}

    def matrix(name: str, height: int, width: int) -> None:
        data, weights[name] = _blocks(random, height, width)
        stored[name] = (1, data)

    def floats(name: str, *shape: int, around: float = 0.0) -> None:
        weights[name] = (random.standard_normal(shape) * 0.1 + around).astype(np.float32)
        stored[name] = (0, weights[name].tobytes())

    matrix("emb.word", rows, HIDDEN)
    floats("emb.pos", POSITIONS, HIDDEN)
    floats("emb.type", 2, HIDDEN)
    norms = ["emb.ln"] + [f"l{i}.{n}" for i in range(LAYERS) for n in ("aln", "oln")]
    for norm in norms:
        floats(f"{norm}.w", HIDDEN, around=1.0)
        floats(f"{norm}.b", HIDDEN)
    for i in range(LAYERS):
        for name in ("q", "k", "v", "ao"):
            matrix(f"l{i}.{name}.w", HIDDEN, HIDDEN)
            floats(f"l{i}.{name}.b", HIDDEN)
        matrix(f"l{i}.fi.w", INNER, HIDDEN)
        floats(f"l{i}.fi.b", INNER)
        matrix(f"l{i}.fo.w", HIDDEN, INNER)
        floats(f"l{i}.fo.b", HIDDEN)

    head = b"E5S1" + struct.pack("<I7ifi", 1, HIDDEN, LAYERS, HEADS, INNER, rows, POSITIONS, 2, 1e-12, 32)
    texts = [piece.encode() for piece in PIECES]
    ends = np.cumsum([0, *map(len, texts)]).astype("<u4")
    scores = np.array([0.0] * 4 + [-float(20 // len(piece)) for piece in PIECES[4:]], "<f4")
    head += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, int(ends[-1])) + ends.tobytes() + scores.tobytes()
    head += b"".join(texts) + struct.pack("<iI", 1, 5) + b"\x01\x00\x00\x00\x00"
    head += struct.pack("<i", len(stored))
    offset = len(head) + sum(2 + len(name) + 21 for name in stored)
    entries, directory = b"", []
    for name, (kind, data) in stored.items():
        entries += struct.pack("<H", len(name)) + name.encode()
        entries += struct.pack("<BIQQ", kind, weights[name].size, offset, len(data))
        directory.append((name, offset))
        offset += len(data)
    path.write_bytes(head + entries + b"".join(data for _, data in stored.values()))
    return TinyE5(path, weights, directory)


@pytest.fixture(scope="session")
def tiny_e5(tmp_path_factory: pytest.TempPathFactory) -> TinyE5:
    return write_tiny_e5(tmp_path_factory.mktemp("e5") / "tiny.bin")


@pytest.fixture(scope="session")
def tiny_encoder_dir(tiny_e5: TinyE5, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("encoder") / "tiny"
    convert_e5(tiny_e5.path, target)
    return target
