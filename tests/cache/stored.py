"""Entries for tests: any field can be named, the rest is plausible."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slipstream.cache.entry import Cited, Entry, Seen, TokenCodes
from slipstream.types import Usage, Vector

DIMENSIONS = 16
NOW = 1_800_000_000.0


def vector(seed: int, near: Vector | None = None) -> Vector:
    """A unit vector; close to `near` when that is given."""
    made = np.random.default_rng(seed).standard_normal(DIMENSIONS).astype(np.float32)
    made = made if near is None else near + 0.05 * made
    return made / np.float32(np.linalg.norm(made))


def entry(number: int, **fields: object) -> Entry:
    codes = np.random.default_rng(number).integers(-127, 128, (3, DIMENSIONS)).astype(np.int8)
    made = Entry(
        id=f"entry-{number}",
        tenant="acme",
        scope="scope",
        text=f"question {number}",
        language="en",
        vector=vector(number),
        tokens=TokenCodes(codes, np.array([[0, 8], [9, 10], [10, 11]], np.int32)),
        seen=(Seen("passage-1", (0, 10), 0.9), Seen("passage-2", (4, 8), 0.8)),
        answer=f"答案 {number} [1]",
        cited=(Cited(1, "passage-1", "手册.md", "docs"),),
        finish_reason="stop",
        usage=Usage(10, 5, 0),
        tier="small",
        model="fake",
        supported=True,
        cost_s=1.5,
        stored_at=NOW,
        tag="",
    )
    return replace(made, **fields)  # type: ignore[arg-type]
