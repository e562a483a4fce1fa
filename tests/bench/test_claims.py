"""Verdicts follow the figures; reports carry both sides; quality measures what it says."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from slipstream.answer.cross_encode import CrossEncode
from slipstream.bench.claims import Bar, Claim, Finding, Result, Side, percentile
from slipstream.bench.datasets import SHIPPED, EvaluationSet, Item, shipped
from slipstream.bench.factual import contains
from slipstream.bench.machine import this_machine
from slipstream.bench.prove import CLAIMS, chosen
from slipstream.bench.quality import index, measure, ndcg
from slipstream.bench.report import results_html, results_json, show_result
from slipstream.errors import ConfigError
from slipstream.models.fake_cross_encoder import FakeCrossEncoder
from slipstream.models.fake_encoder import FakeEncoder
from slipstream.settings import RetrievalSettings, Settings
from slipstream.stores.memory import MemoryStore


async def _never(settings: Settings, say: object) -> Finding:
    raise NotImplementedError


CLAIM = Claim("X", "x is fast", _never, 1)


@pytest.mark.parametrize(
    ("bar", "holds"),
    [
        (Bar("a", 2.0, "s", "<=", 2.0), True),
        (Bar("a", 2.1, "s", "<=", 2.0), False),
        (Bar("a", 2.0, "s", ">=", 2.0), True),
        (Bar("a", 1.9, "s", ">=", 2.0), False),
        (Bar("a", 1.9, "s", "report"), None),
    ],
)
def test_a_bar_holds_or_not(bar: Bar, holds: bool | None) -> None:
    assert bar.holds is holds


def test_one_failed_bar_fails_the_claim() -> None:
    assert not Finding((), (Bar("a", 1, "", ">=", 0), Bar("b", 1, "", ">=", 2))).holds


def test_percentiles_are_nearest_rank() -> None:
    samples = [float(i) for i in range(1, 101)]
    assert (percentile(samples, 50), percentile(samples, 99), percentile(samples, 0)) == (50, 99, 1)
    assert percentile([3.0], 95) == 3.0


def test_reports_carry_sides_bars_and_verdict() -> None:
    finding = Finding(
        (Side("ours", "ms", (1.0, 3.0, 2.0)), Side("theirs", "ms", (9.0,))), (Bar("a", 2, "ms", "<=", 1),)
    )
    result = Result(CLAIM, finding, 1.0)
    body = results_json([result], this_machine())
    assert json.loads(json.dumps(body))["claims"][0]["holds"] is False
    assert body["claims"][0]["sides"][0]["median"] == 2.0
    out = io.StringIO()
    show_result(Console(file=out, width=100), result)
    assert "FAILS" in out.getvalue()
    assert "theirs" in results_html([result], this_machine())


def test_claims_are_found_by_id_and_unknown_ones_refused() -> None:
    assert chosen(["r13"])[0].id == "R13"
    assert chosen([]) == CLAIMS
    with pytest.raises(ConfigError, match="Z9"):
        chosen(["Z9"])


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_sets_are_whole(name: str) -> None:
    data = shipped(name)
    sample = data.sample(300)
    assert len(sample.items) == 300
    assert sample == data.sample(300)
    for item in sample.items:
        assert all(0 <= index < len(data.passages) for index in item.relevant)


def test_ndcg_is_the_textbook_one() -> None:
    assert ndcg(["a", "b"], {"a"}) == 1.0
    assert ndcg(["b", "a"], {"a"}) == pytest.approx(0.6309, abs=1e-4)
    assert ndcg(["b"], {"a"}) == 0.0


def test_containment_folds_width_case_and_punctuation() -> None:
    assert contains("It is  ＵＶＩＣＯＲＮ --reload.", ["uvicorn --reload"])
    assert not contains("It is gunicorn.", ["uvicorn"])
    assert not contains("It was 2010.", ["201"])
    assert contains("默认值是`None`。", ["None"])
    assert contains("共有28天年假", ["28天"])


@pytest.mark.anyio
async def test_quality_over_the_exact_store() -> None:
    data = EvaluationSet(
        "tiny",
        ("The sky is blue today.", "Grass grows in the garden.", "猫在屋顶上睡觉。"),
        (
            Item("What colour is the sky?", frozenset({0}), ()),
            Item("Where does grass grow?", frozenset({1}), ()),
            Item("猫在哪里睡觉？", frozenset({2}), ()),
        ),
    )
    encoder = FakeEncoder()
    store = MemoryStore(dimensions=encoder.dimensions)
    ids = await index(data, store, encoder, lambda _: None)
    report = await measure(data, ids, store, encoder, RetrievalSettings())
    assert report.row("rrf + late interaction").recall_at_1 == 1.0
    assert [row.way for row in report.rows] == ["dense", "sparse", "rrf", "rrf + late interaction"]
    assert [stage.stage for stage in report.stages] == ["encode", "dense", "bm25", "both, fused", "late interaction"]
    cross = CrossEncode("fake", FakeCrossEncoder().score, 5.0, 0)
    report = await measure(data, ids, store, encoder, RetrievalSettings(), cross)
    assert report.row("+ cross-encoder").recall_at_1 == 1.0
    assert report.stages[-1].stage == "cross-encoder"


def test_questions_in_chinese_have_their_passages_in_english() -> None:
    across, english = shipped("xquad_zh_en"), shipped("xquad_en")
    assert across.passages == english.passages
    assert [item.relevant for item in across.items] == [item.relevant for item in english.items]
    assert across.items[0].question == "黑豹队的防守丢了多少分？"
    assert across.items[0].answers == english.items[0].answers
