"""A tenant is emptied whole, whoever leaves and whenever the process dies; and keeps no more than it may."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from slipstream.errors import Forbidden, TooLarge, Unavailable
from slipstream.ingest.ledger import Ledger
from slipstream.ingest.locks import DocumentLocks
from slipstream.ingest.run import Ingestor
from slipstream.ingest.versions import DocumentKey
from slipstream.models.fake_encoder import FakeEncoder
from slipstream.settings import IngestSettings, TenantLimits, TenantsSettings
from slipstream.stores.memory import MemoryStore
from slipstream.stores.qdrant_edge import QdrantEdgeStore
from slipstream.types import Scope

pytestmark = pytest.mark.anyio

CHILD = Path(__file__).with_name("tenant_child.py")
ENCODER = FakeEncoder()
LONG = "\n\n".join(f"Paragraph {n} says that value {n} is the right one for case {n}. " * 5 for n in range(8))


class Halting(MemoryStore):
    """Stops inside a deletion until it is told to go on."""

    def __init__(self) -> None:
        super().__init__(dimensions=ENCODER.dimensions)
        self.inside, self.go_on = asyncio.Event(), asyncio.Event()
        self.fails = 0

    async def delete_scope(self, scope: Scope) -> None:
        self.inside.set()
        await self.go_on.wait()
        if self.fails:
            self.fails -= 1
            raise Unavailable("The disk is full.")
        await super().delete_scope(scope)


@asynccontextmanager
async def ingesting(data: Path, store: MemoryStore, tenants: TenantsSettings | None = None) -> AsyncIterator[Ingestor]:
    ingestor = Ingestor(store, ENCODER, Ledger(data / "ledger.sqlite"), IngestSettings(passage_tokens=32), tenants)
    await ingestor.open()
    try:
        yield ingestor
    finally:
        await ingestor.close()


async def put(ingestor: Ingestor, name: str, text: str = LONG, tenant: str = "t") -> int:
    result = await ingestor.ingest_bytes(name, text.encode(), tenant=tenant, collection="c")
    return result.document.passages


# --- emptied ---


async def test_what_a_tenant_keeps_is_counted_and_goes_whole(tmp_path: Path) -> None:
    store = MemoryStore(dimensions=ENCODER.dimensions)
    async with ingesting(tmp_path, store) as ingestor:
        passages = await put(ingestor, "a.md") + await put(ingestor, "b.md", LONG + " More.")
        kept = await put(ingestor, "a.md", tenant="other")
        use = await ingestor.use("t")
        assert (use.documents, use.passages, use.bytes) == (2, passages, 2 * len(LONG) + len(" More."))
        assert await ingestor.delete_tenant("t") == use
        assert (await store.count(Scope("t")), await store.count(Scope("other"))) == (0, kept)
        assert await ingestor.list_documents("t") == []
        assert (await ingestor.use("t")).documents == 0
        assert await put(ingestor, "a.md") > 0


async def test_who_leaves_does_not_stop_it_and_a_second_call_joins(tmp_path: Path) -> None:
    store = Halting()
    async with ingesting(tmp_path, store) as ingestor:
        await put(ingestor, "a.md")
        first = asyncio.create_task(ingestor.delete_tenant("t"))
        await store.inside.wait()
        assert await ingestor.list_documents("t") == []
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        second = asyncio.create_task(ingestor.delete_tenant("t"))
        await asyncio.sleep(0)
        store.go_on.set()
        assert (await second).documents == 1
        assert await store.count(Scope("t")) == 0


async def test_a_document_written_meanwhile_waits_and_is_kept(tmp_path: Path) -> None:
    store = Halting()
    async with ingesting(tmp_path, store) as ingestor:
        await put(ingestor, "old.md")
        emptying = asyncio.create_task(ingestor.delete_tenant("t"))
        await store.inside.wait()
        writing = asyncio.create_task(put(ingestor, "new.md"))
        elsewhere = await put(ingestor, "new.md", tenant="other")
        assert not writing.done()
        store.go_on.set()
        await emptying
        assert await writing == elsewhere
        assert await store.count(Scope("t")) == elsewhere
        assert [record.id for record in await ingestor.list_documents("t")] == ["new.md"]


async def test_after_a_failure_the_next_call_completes_it(tmp_path: Path) -> None:
    store = Halting()
    store.fails = 1
    store.go_on.set()
    async with ingesting(tmp_path, store) as ingestor:
        await put(ingestor, "a.md")
        with pytest.raises(Unavailable):
            await ingestor.delete_tenant("t")
        assert await ingestor.list_documents("t") == []
        await ingestor.delete_tenant("t")
        assert await store.count(Scope("t")) == 0


async def test_after_a_failure_the_next_start_completes_it(tmp_path: Path) -> None:
    store = Halting()
    store.fails = 1
    store.go_on.set()
    async with ingesting(tmp_path, store) as ingestor:
        await put(ingestor, "a.md")
        kept = await put(ingestor, "a.md", tenant="other")
        with pytest.raises(Unavailable):
            await ingestor.delete_tenant("t")
    async with ingesting(tmp_path, store) as ingestor:
        assert (await store.count(Scope("t")), await store.count(Scope("other"))) == (0, kept)
        assert (await ingestor.use("t")).documents == 0


@pytest.mark.parametrize("after", ["begin_delete_tenant", "delete_scope"])
async def test_killed_half_way_the_next_start_completes_it(tmp_path: Path, after: str) -> None:
    child = await asyncio.create_subprocess_exec(sys.executable, str(CHILD), str(tmp_path), after)
    assert await child.wait() == 9
    store = QdrantEdgeStore(tmp_path / "passages", dimensions=ENCODER.dimensions, encoder=ENCODER.name)
    await store.open()
    assert (await store.count(Scope("t")) > 0) == (after == "begin_delete_tenant")
    ingestor = Ingestor(store, ENCODER, Ledger(tmp_path / "ledger.sqlite"), IngestSettings(passage_tokens=32))
    await ingestor.open()
    assert await store.count(Scope("t")) == 0
    assert await store.count(Scope("other")) == (await ingestor.use("other")).passages > 0
    assert (await ingestor.use("t")).documents == 0
    await ingestor.close()
    await store.close()


# --- held to its limits ---


async def test_a_full_tenant_is_told_so_and_others_are_not(tmp_path: Path) -> None:
    tenants = TenantsSettings(max_documents=2, limits={"big": TenantLimits()})
    async with ingesting(tmp_path, MemoryStore(dimensions=ENCODER.dimensions), tenants) as ingestor:
        for name in ("a", "b"):
            await put(ingestor, name)
        with pytest.raises(Forbidden, match=r"may keep 2 documents.*would have 3") as caught:
            await put(ingestor, "c")
        assert caught.value.code == "tenant_full"
        await put(ingestor, "b", LONG + " Edited.")  # a new version is no new document
        await put(ingestor, "c", tenant="other")
        for name in ("a", "b", "c"):
            await put(ingestor, name, tenant="big")
        await ingestor.delete("t", "c", "a")
        await put(ingestor, "c")


async def test_a_document_larger_than_the_limit_is_too_large(tmp_path: Path) -> None:
    store = MemoryStore(dimensions=ENCODER.dimensions)
    async with ingesting(tmp_path, store, TenantsSettings(max_passages=3)) as ingestor:
        with pytest.raises(TooLarge, match="may keep 3 in all"):
            await put(ingestor, "a.md")
        assert await store.count(Scope("t")) == 0
        assert await ingestor.list_documents("t") == []


async def test_two_at_once_cannot_both_take_the_last_room(tmp_path: Path) -> None:
    store = MemoryStore(dimensions=ENCODER.dimensions)
    async with ingesting(tmp_path, store, TenantsSettings(max_documents=3)) as ingestor:
        names = [f"{n}.md" for n in range(12)]
        done = await asyncio.gather(*(put(ingestor, name) for name in names), return_exceptions=True)
        refused = [error for error in done if isinstance(error, Forbidden)]
        assert len(await ingestor.list_documents("t")) == 12 - len(refused) <= 3
        while len(await ingestor.list_documents("t")) < 3:  # who was refused may ask again
            await put(ingestor, names.pop())
        with pytest.raises(Forbidden):
            await put(ingestor, "last.md")


# --- locks ---


async def test_emptying_waits_for_writers_and_writers_wait_for_it() -> None:
    locks, log = DocumentLocks(), list[str]()
    entered, leave = asyncio.Event(), asyncio.Event()

    async def write(name: str, wait: bool = False) -> None:
        async with locks.hold([DocumentKey("t", "c", name)]):
            log.append(f"{name} in")
            entered.set()
            if wait:
                await leave.wait()
            log.append(f"{name} out")

    async def empty() -> None:
        async with locks.hold_tenant("t"):
            log.append("empty")

    first = asyncio.create_task(write("a", wait=True))
    await entered.wait()
    emptying, second = asyncio.create_task(empty()), asyncio.create_task(empty())
    await asyncio.sleep(0)
    later = asyncio.create_task(write("b"))
    await asyncio.sleep(0)
    leave.set()
    await asyncio.gather(first, emptying, second, later)
    assert log.index("a out") < log.index("empty") < log.index("b in")
    assert log.count("empty") == 2
    assert not any(vars(locks).values())
