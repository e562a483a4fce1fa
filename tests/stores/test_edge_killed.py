"""kill -9 at any moment loses nothing acknowledged, doubles nothing and leaves a store that opens."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from contracts.store_contract import DIMENSIONS, A, encoding
from stores.writing_child import PER_DOCUMENT

from slipstream.stores.qdrant_edge import QdrantEdgeStore

CHILD = Path(__file__).with_name("writing_child.py")
_PATH = os.pathsep.join([str(CHILD.parents[1]), os.environ.get("PYTHONPATH", "")])


def write_and_kill(directory: Path, first: int, pick: random.Random, written: set[int], deleted: set[int]) -> int:
    """Lets the child write, kills it after a random number of acknowledgements; returns the next free number."""
    patience = pick.randrange(1, 60)
    last = first
    with subprocess.Popen(
        [sys.executable, str(CHILD), str(directory), str(first)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": _PATH},
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            kind, _, number = line.strip().partition(" ")
            if kind != "open":
                last = max(last, int(number))
                (written if kind == "wrote" else deleted).add(int(number))
            patience -= 1
            if not patience:
                child.send_signal(signal.SIGKILL)
                patience = 10_000
    return last + 2


async def check(directory: Path, written: set[int], deleted: set[int], unsure: set[int]) -> None:
    store = QdrantEdgeStore(directory, dimensions=DIMENSIONS)
    await store.open()
    seen: dict[str, list[str]] = {}
    async for batch in store.scan(A):
        for passage in batch:
            seen.setdefault(passage.document_id, []).append(passage.id)
    for number in written - deleted - unsure:
        assert len(seen.get(f"d{number}", [])) == PER_DOCUMENT, f"d{number} was acknowledged"
    for number in deleted:
        assert f"d{number}" not in seen
    ids = [passage_id for found in seen.values() for passage_id in found]
    assert len(ids) == len(set(ids))
    assert len(await store.score_tokens(encoding(1).tokens, ids, A)) == len(ids)
    assert {hit.passage_id for hit in await store.search_sparse("words", A, 100_000)} == set(ids)
    assert len(await store.search_dense(encoding(1).dense, A, len(ids) + 1)) == len(ids)
    await store.close()


@pytest.mark.parametrize("rebuilding", [False, True])
def test_nothing_is_left_behind_by_a_killed_server(tmp_path: Path, rebuilding: bool) -> None:
    command = [sys.executable, str(CHILD), str(tmp_path), "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": _PATH}
    ) as server:
        assert server.stdout is not None
        for _ in server.stdout:  # it goes on writing, and rebuilds now and then
            left = psutil.Process(server.pid).children()
            held = [child for child in left if child.nice() > psutil.Process().nice()]
            if held or not rebuilding:
                break
        for child in held:
            child.suspend()  # as one is who does not look at its input for minutes
        server.kill()
    _, alive = psutil.wait_procs(left, timeout=20)
    for child in alive:
        child.kill()
    assert not alive


@pytest.mark.anyio
@pytest.mark.parametrize("rounds", [4, pytest.param(20, marks=pytest.mark.heavy)])
async def test_killed_while_writing_and_optimizing(tmp_path: Path, rounds: int) -> None:
    pick = random.Random(rounds)
    written: set[int] = set()
    deleted: set[int] = set()
    unsure: set[int] = set()
    first = 0
    for _ in range(rounds):
        first = write_and_kill(tmp_path, first, pick, written, deleted)
        # a delete may have happened without its acknowledgement having been read
        unsure |= {n for n in range(first - 8, first) if n % 5 == 2}
        await check(tmp_path, written, deleted, unsure)
    assert len(written) > 20
