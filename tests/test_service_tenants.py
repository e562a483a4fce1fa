"""A tenant over the whole program: what it keeps is told, what it may not keep is refused, and what goes is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipstream.build import build
from slipstream.errors import Forbidden
from slipstream.service import Slipstream
from slipstream.settings import DataSettings, ModelsSettings, Settings, TenantsSettings
from slipstream.types import Question, Scope, SearchOptions

pytestmark = pytest.mark.anyio

LEAVE = "Every employee has 28 days of leave a year. Unused days expire in March."


def program(directory: Path, max_documents: int = 0) -> Slipstream:
    return build(
        Settings(
            data=DataSettings(dir=directory),
            models=ModelsSettings(encoder="fake", small="fake"),
            tenants=TenantsSettings(max_documents=max_documents),
        )
    )


async def put(service: Slipstream, name: str, tenant: str) -> None:
    await service.ingest(name, LEAVE.encode(), service.open_call(tenant, None, None), collection="docs")


async def found(service: Slipstream, tenant: str, **options: object) -> int:
    question = Question("How many days of leave?", Scope(tenant), search=SearchOptions(**options))  # type: ignore[arg-type]
    result = await service.search(question, service.open_call(tenant, None, None), limit=5, rerank=True)
    return len(result.passages.items)


async def test_a_tenant_is_counted_limited_emptied_and_stays_empty(tmp_path: Path) -> None:
    service = program(tmp_path, max_documents=2)
    await service.start()
    for tenant in ("acme", "other"):
        await put(service, "a.md", tenant)
        await put(service, "b.md", tenant)
    with pytest.raises(Forbidden, match="may keep 2 documents"):
        await put(service, "c.md", "acme")
    assert await found(service, "acme") == 1  # the copy is collapsed
    call = service.open_call("acme", None, None)
    state = await service.tenant(call)
    assert (state.documents, state.passages, state.requests["search"]) == (2, 2, 1)
    gone = await service.delete_tenant(call)
    assert (gone.documents, gone.passages) == (2, 2)
    await service.stop()

    service = program(tmp_path)
    await service.start()
    assert (await found(service, "acme"), await found(service, "other")) == (0, 1)
    assert (await service.tenant(service.open_call("acme", None, None))).documents == 0
    assert (await service.tenant(service.open_call("other", None, None))).documents == 2
    await service.stop()


async def test_explain_names_the_passages_of_every_leg(tmp_path: Path) -> None:
    service = program(tmp_path)
    await service.start()
    await put(service, "a.md", "acme")
    question = Question("leave", Scope("acme"))
    call = service.open_call("acme", None, None)
    result = await service.search(question, call, limit=5, rerank=True, explain=True)
    assert {leg.kind for leg in result.legs} == {"dense", "sparse"}
    assert {hit.passage_id for leg in result.legs for hit in leg.hits} == {passage.id for passage in result.named}
    await service.stop()
