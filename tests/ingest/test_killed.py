from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slipstream.ingest.ledger import Ledger
from slipstream.ingest.run import Ingestor
from slipstream.models.fake_encoder import FakeEncoder
from slipstream.settings import IngestSettings
from slipstream.stores.qdrant_edge import QdrantEdgeStore
from slipstream.types import Scope

CHILD = Path(__file__).with_name("ingest_child.py")
FILES = 60


def edit(root: Path, pick: random.Random) -> None:
    """Some files get another text, of several passages."""
    for n in pick.sample(range(FILES), FILES // 2):
        body = "\n\n".join(f"Paragraph {p} of file {n} has the value {pick.random()}. " * 4 for p in range(6))
        (root / f"{n:03}.md").write_text(f"# File {n}\n\n{body}\n")


def run_and_kill(data: Path, root: Path, pick: random.Random) -> set[str]:
    """Ingests in a child process, killed at a random moment; returns what it had acknowledged by then."""
    acknowledged: set[str] = set()
    with subprocess.Popen(
        [sys.executable, str(CHILD), str(data), str(root)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            kind, _, name = line.rstrip("\n").partition(" ")
            if kind in {"created", "replaced", "unchanged"}:
                acknowledged.add(name)
            if pick.random() < 0.03:
                time.sleep(pick.random() * 0.05)  # so that it dies between two lines as well
                break
        child.kill()
    return acknowledged


def run_to_the_end(data: Path, root: Path) -> None:
    subprocess.run([sys.executable, str(CHILD), str(data), str(root)], check=True, stdout=subprocess.DEVNULL)


async def check(data: Path, root: Path, acknowledged: set[str]) -> int:
    """The ledger lists what was acknowledged, and the store holds exactly what the ledger lists."""
    encoder = FakeEncoder()
    store = QdrantEdgeStore(data / "passages", dimensions=encoder.dimensions, encoder=encoder.name)
    await store.open()
    ingestor = Ingestor(store, encoder, Ledger(data / "ledger.sqlite"), IngestSettings(passage_tokens=32))
    await ingestor.open()
    listed = {record.id: record for record in await ingestor.list_documents("t", limit=FILES + 1)}
    held: dict[str, list[tuple[str, int]]] = {}
    async for batch in store.scan(Scope("t")):
        for passage in batch:
            held.setdefault(passage.document_id, []).append((passage.version, passage.position))
            if passage.document_id in acknowledged:
                assert passage.text in (root / passage.document_id).read_text()
    assert acknowledged <= listed.keys()
    assert held.keys() == listed.keys()
    for name, record in listed.items():
        assert sorted(held[name]) == [(record.version, position) for position in range(record.passages)]
    await ingestor.close()
    await store.close()
    return len(listed)


@pytest.mark.anyio
@pytest.mark.parametrize("rounds", [3, pytest.param(20, marks=pytest.mark.heavy)])
async def test_killed_while_ingesting_nothing_acknowledged_is_lost_nothing_doubled(tmp_path: Path, rounds: int) -> None:
    pick = random.Random(rounds)
    data, root = tmp_path / "data", tmp_path / "docs"
    root.mkdir()
    for _ in range(rounds):
        edit(root, pick)
        await check(data, root, run_and_kill(data, root, pick))
    run_to_the_end(data, root)
    names = {path.name for path in root.iterdir()}
    assert await check(data, root, names) == len(names)
