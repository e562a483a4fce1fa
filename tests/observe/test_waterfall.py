"""The waterfall: bars where the time went, within the width, whatever the spans."""

from __future__ import annotations

import random

import pytest
from rich.cells import cell_len

from slipstream.call import Span
from slipstream.observe.waterfall import render_waterfall

REQUEST = [
    Span("rewrite", 0.0, 0.0002, {"reason": "stand-alone"}),
    Span("retrieve", 0.0003, 0.024, {"candidates": 62}),
    Span("sparse", 0.0004, 0.0041, {"hits": 50}),
    Span("encode", 0.0005, 0.0154),
    Span("dense", 0.0155, 0.0238, {"hits": 50}),
    Span("rerank", 0.0242, 0.058, {"scored": 50, "kept": 3}),
    Span("late_interaction", 0.0243, 0.048, {"candidates": 50}),
    Span("route", 0.0581, 0.0582, {"tier": "small", "reason": "默认层级"}),
    Span("generate", 0.061, 1.32, {"tier": "small", "tokens": 48, "cached_tokens": 512}),
    Span("first_token", 0.355, 0.355),
    Span("finish", 1.32, 1.3212, {"cited": 2}),
]


def lines(spans: list[Span], total_s: float, width: int = 80) -> list[str]:
    return render_waterfall(spans, total_s, width).plain.split("\n")


def row(drawn: list[str], name: str) -> str:
    return next(line for line in drawn if line.strip().startswith(name))


def test_one_row_a_stage_in_order_with_figures_and_details() -> None:
    drawn = lines(REQUEST, 1.3215)
    names = [line[:20].strip() for line in drawn if line[:20].strip()]
    assert names == [
        "stage",
        "rewrite",
        "retrieve",
        "sparse",
        "encode",
        "dense",
        "rerank",
        "late interaction",
        "route",
        "generate",
        "finish",
    ]
    assert "23.7" in row(drawn, "retrieve")
    assert "62 candidates" in row(drawn, "retrieve")
    assert "1,259" in row(drawn, "generate")
    assert any("512 cached" in line and "49/s" in line for line in drawn)
    assert any("first token 355 ms" in line for line in drawn)


def test_inner_stages_are_indented() -> None:
    drawn = lines(REQUEST, 1.3215)
    assert row(drawn, "dense").startswith("  dense")
    assert row(drawn, "rerank").startswith("rerank")


def test_what_overlaps_is_seen_to() -> None:
    drawn = lines([Span("dense", 0.0, 0.1), Span("sparse", 0.05, 0.15)], 0.15)
    dense, sparse = row(drawn, "dense"), row(drawn, "sparse")
    assert sum(a != " " and b == "█" for a, b in zip(dense[15:], sparse[15:], strict=False)) > 10
    assert dense.index("█") < sparse.index("█")
    assert len(dense) < len(sparse)


def test_prefill_is_hatched_and_the_axis_has_its_knee_at_the_first_token() -> None:
    drawn = lines(REQUEST, 1.3215)
    generate = row(drawn, "generate")
    knee = drawn[0].index("┊")
    assert generate[knee - 1] == "░"
    assert generate[knee] == "█"
    assert row(drawn, "encode")[knee] == "┊"
    assert "355 ms ┊" in drawn[0]


def test_no_knee_when_the_first_token_comes_late_or_never() -> None:
    assert "┊" not in lines([Span("generate", 0, 1.0), Span("first_token", 0.9, 0.9)], 1.0)[0]
    assert "┊" not in lines(REQUEST[:5], 0.03)[0]


def test_a_stage_that_still_runs() -> None:
    assert "…" in row(lines([Span("generate", 0.1)], 0.5), "generate")


def test_nothing_to_draw() -> None:
    assert len(lines([], 0.0)) == 1


@pytest.mark.parametrize("seed", range(30))
def test_fits_any_width_whatever_the_spans(seed: int) -> None:
    rng = random.Random(seed)
    spans = []
    for number in range(rng.randrange(12)):
        start = rng.random() * 3
        end = rng.choice([start, start + rng.random() * 10 ** rng.randrange(-5, 2), None])
        detail: dict[str, str | int | float | bool] = {
            "reason": "理由" * rng.randrange(30),
            "tokens": rng.randrange(99),
        }
        spans.append(
            Span(
                rng.choice(["generate", "first_token", "一个很长的阶段名字" * 2, f"stage_{number}"]), start, end, detail
            )
        )
    spans.sort(key=lambda span: span.start_s)
    for width in (40, 60, 80, 132):
        for line in lines(spans, rng.random() * 5, width):
            assert cell_len(line) <= width
