"""`slipstream cache calibrate` on a reader's own pairs, and how thresholds are chosen."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from slipstream.cache.calibration import Scored, calibrate
from slipstream.cache.guard import FormVerdict
from slipstream.cache.meaning import Closeness
from slipstream.commands.cache import run_calibrate
from slipstream.errors import ConfigError
from slipstream.settings import DataSettings, ModelsSettings, Settings

PAIRS = [
    {"first": "How do I cancel my plan?", "second": "How can I cancel my plan?", "same": True},
    {"first": "How do I cancel my plan?", "second": "How do I renew my plan?", "same": False},
    {"first": "怎么开启自动扣款？", "second": "如何打开自动扣款？", "same": True},
    {"first": "怎么开启自动扣款？", "second": "怎么关闭自动扣款？", "same": False},
]


def settings(directory: Path) -> Settings:
    return Settings(
        data=DataSettings(dir=directory, store="memory"), models=ModelsSettings(encoder="fake", small="fake")
    )


@pytest.mark.anyio
async def test_thresholds_are_chosen_for_each_language(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pairs.jsonl"
    file.write_text("\n".join(json.dumps(pair, ensure_ascii=False) for pair in PAIRS) + "\n\n", encoding="utf-8")
    shown = Console(file=io.StringIO(), width=120)
    assert await run_calibrate(settings(tmp_path), shown, pairs=file, max_false_hits=0.0, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"en", "zh"}
    for calibration in found.values():
        assert calibration["chosen"]["recall"] == 1.0
        assert calibration["chosen"]["false_hits"] == 0.0
    text = shown.file.getvalue()  # type: ignore[attr-defined]
    assert "[cache.thresholds]" in text
    assert "Chinese" in text


@pytest.mark.anyio
@pytest.mark.parametrize(
    "line", ["{", "[]", '{"first": "a", "second": "b"}', '{"first": "a", "second": "b", "same": 1}']
)
async def test_a_wrong_line_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "pairs.jsonl"
    file.write_text(f"{json.dumps(PAIRS[0])}\n{line}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="line 2"):
        await run_calibrate(settings(tmp_path), Console(quiet=True), pairs=file, max_false_hits=0.0, as_json=False)
    with pytest.raises(ConfigError, match="cannot be read"):
        await run_calibrate(
            settings(tmp_path), Console(quiet=True), pairs=tmp_path / "none", max_false_hits=0.0, as_json=False
        )


def scored(same: bool, both_ways: float, passed: bool = True) -> Scored:
    return Scored(same, FormVerdict(passed, ""), Closeness(both_ways, 1.0))


def test_the_bound_is_kept_and_recall_is_what_it_leaves() -> None:
    pairs = [scored(True, b) for b in (0.85, 0.91, 0.96, 0.99)] + [scored(False, b) for b in (0.82, 0.88, 0.93)]
    pairs += [scored(False, 0.999, passed=False)]
    strict = calibrate(pairs, 0.0)
    assert (strict.chosen.recall, strict.chosen.false_hits) == (0.5, 0.0)
    assert 0.93 < strict.chosen.both_ways <= 0.96
    assert calibrate(pairs, 0.25).chosen.recall == 0.75
    assert calibrate(pairs, 1.0).chosen.recall == 1.0
    assert strict.within_bound
    assert not calibrate([scored(False, 1.0), scored(True, 1.0)], 0.0).within_bound
