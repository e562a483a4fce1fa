"""`slipstream search` shows every step side by side, over a server that is really there."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from slipstream.commands.local import local_server
from slipstream.commands.search import run_search
from slipstream.errors import SlipstreamError
from slipstream.settings import DataSettings, ModelsSettings, Settings

pytestmark = pytest.mark.anyio

PUMP = "The pump stops with error E1234-5. Restart it."


def settings(tmp_path: Path) -> Settings:
    return Settings(
        data=DataSettings(dir=tmp_path, store="memory"), models=ModelsSettings(encoder="fake", small="fake")
    )


async def shown(tmp_path: Path, as_json: bool = False, **options: object) -> str:
    here, out = settings(tmp_path), Console(file=io.StringIO(), width=140)
    async with local_server(here, Console(quiet=True)) as local:
        for name, text in (("a.md", PUMP), ("copy.md", PUMP), ("b.md", "错误码E1234-5表示水泵过热。")):
            call = local.service.open_call("default", None, None)
            await local.service.ingest(name, text.encode(), call, collection="docs")
        await run_search(here, "pump error E1234-5", options=options, server=local.base, console=out, as_json=as_json)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


async def test_every_step_is_a_column_and_a_collapsed_copy_is_shown_as_such(tmp_path: Path) -> None:
    text = await shown(tmp_path)
    for column in ("dense", "sparse", "fused", "reranked (maxsim)", "shown", " ms"):
        assert column in text
    assert "b.md#0" in text
    first = next(line for line in text.splitlines() if line.startswith("│") and line.strip("│ ").startswith("1"))
    cells = [cell.split() for cell in first.strip("│").split("│")]
    assert cells[-1][0] == "A"  # the first one shown is marked A wherever it stands
    assert len(cells) == 6


async def test_json_is_what_the_server_said(tmp_path: Path) -> None:
    found = json.loads(await shown(tmp_path, as_json=True, limit=2))
    assert len(found["data"]) == 2
    assert len(found["explain"]["collapsed"]) == 1
    assert {leg["leg"] for leg in found["explain"]["legs"]} == {"dense", "sparse"}
    assert {span["name"] for span in found["stages"]} >= {"encode", "dense", "sparse", "late_interaction"}


async def test_one_leg_alone_is_one_column(tmp_path: Path) -> None:
    text = await shown(tmp_path, mode="sparse")
    assert "sparse" in text
    assert "dense\n" not in text
    header = next(line for line in text.splitlines() if "fused" in line)
    assert "dense" not in header


async def test_a_refusal_is_the_servers_own(tmp_path: Path) -> None:
    with pytest.raises(SlipstreamError, match="mode"):
        await shown(tmp_path, mode="fuzzy")
