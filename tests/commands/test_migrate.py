"""`slipstream migrate`: between configured stores, with a report that says whether the copy is whole."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from contracts.store_contract import encoding, wordy
from rich.console import Console
from stores.qdrant_server import QdrantDouble

from slipstream.build import build_store
from slipstream.commands.migrate import run_migrate, with_store
from slipstream.errors import ConfigError
from slipstream.models.fake_encoder import FakeEncoder
from slipstream.settings import DataSettings, ModelsSettings, QdrantSettings, Settings
from slipstream.stores.base import Store
from slipstream.types import Encoding, IndexedPassage, Scope


@pytest.fixture
async def double() -> AsyncIterator[QdrantDouble]:
    double = QdrantDouble()
    await double.start()
    yield double
    await double.close()


@pytest.fixture
def settings(tmp_path: Path, double: QdrantDouble) -> Settings:
    return Settings(
        data=DataSettings(dir=tmp_path),
        models=ModelsSettings(cache_dir=tmp_path / "models", encoder="fake"),
        qdrant=QdrantSettings(url=double.url),
    )


def passages() -> list[IndexedPassage]:
    """Those of the contract, with vectors as long as the fake encoder's."""
    given = [*wordy(300), *wordy(60, tenant="b")]
    return [IndexedPassage(p.passage, _encoding(n)) for n, p in enumerate(given)]


def _encoding(seed: int) -> Encoding:
    return encoding(seed, dimensions=FakeEncoder().dimensions)


async def opened(settings: Settings, store: str) -> Store:
    found = build_store(with_store(settings, store), FakeEncoder())
    await found.open()
    return found


async def migrate(settings: Settings, source: str, target: str, **options: bool) -> tuple[bool, str]:
    said = io.StringIO()
    whole = await run_migrate(
        with_store(settings, source),
        with_store(settings, target),
        Console(file=said, width=100),
        samples=20,
        restart=options.get("restart", False),
        as_json=options.get("as_json", False),
    )
    return whole, said.getvalue()


@pytest.mark.anyio
async def test_from_this_machine_to_a_server_and_back_again(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edge = await opened(settings, "qdrant-edge")
    await edge.upsert(passages())
    await edge.close()

    whole, said = await migrate(settings, "qdrant-edge", "qdrant", as_json=True)
    assert whole
    assert "The copy is complete" in said
    report = json.loads(capsys.readouterr().out)
    assert (report["passages"], report["passages_this_run"], report["holds"]) == (360, 360, True)
    assert report["tenants"] == [
        {"tenant": "a", "source": 300, "target": 300},
        {"tenant": "b", "source": 60, "target": 60},
    ]
    assert report["searches"] == 20
    assert min(report["dense_overlap"], report["sparse_overlap"]) >= 0.99

    elsewhere = settings.model_copy(update={"data": DataSettings(dir=tmp_path / "elsewhere")})
    console = Console(file=io.StringIO())
    back = await run_migrate(
        with_store(settings, "qdrant"),
        with_store(elsewhere, "qdrant-edge"),
        console,
        samples=20,
        restart=False,
        as_json=False,
    )
    assert back
    again = await opened(elsewhere, "qdrant-edge")
    assert await again.count(Scope("a")) == 300
    await again.close()


@pytest.mark.anyio
async def test_again_is_harmless_and_differences_are_named(settings: Settings) -> None:
    edge = await opened(settings, "qdrant-edge")
    await edge.upsert(passages())
    await edge.close()
    assert (await migrate(settings, "qdrant-edge", "qdrant"))[0]
    whole, said = await migrate(settings, "qdrant-edge", "qdrant")
    assert whole
    assert "360 passages copied" in said

    server = await opened(settings, "qdrant")
    surplus = wordy(301)[-1]
    await server.upsert([IndexedPassage(surplus.passage, _encoding(1))])
    await server.close()
    whole, said = await migrate(settings, "qdrant-edge", "qdrant")
    assert not whole
    assert "hold different passages" in said
    assert "301" in said


@pytest.mark.anyio
async def test_stores_that_make_no_sense_are_refused(settings: Settings) -> None:
    with pytest.raises(ConfigError, match="Both stores are qdrant-edge"):
        await migrate(settings, "qdrant-edge", "qdrant-edge")
    with pytest.raises(ConfigError, match="nothing to copy"):
        await migrate(settings, "memory", "qdrant")
    with pytest.raises(ConfigError, match="no store 'faiss'"):
        await migrate(settings, "faiss", "qdrant")
