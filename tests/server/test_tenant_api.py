"""A tenant's own page: what it keeps, and the end of it."""

from __future__ import annotations

import httpx
import pytest

from slipstream.server.app import create_app
from slipstream.server.fake import ScriptedService
from slipstream.settings import ApiKey, ServerSettings, Settings, TenantsSettings

pytestmark = pytest.mark.anyio


async def test_shows_what_the_named_tenant_keeps(http: httpx.AsyncClient) -> None:
    await http.post("/v1/documents", json={"id": "a.md", "text": "Text.", "tenant": "acme"})
    shown = (await http.get("/v1/tenant", params={"tenant": "acme"})).json()
    assert (shown["id"], shown["documents"], shown["passages"], shown["bytes"]) == ("acme", 1, 1, 10)
    assert shown["requests"] == {"answer": 3}
    assert shown["limits"] == {"max_documents": None, "max_passages": None}
    assert (await http.get("/v1/tenant")).json()["id"] == "default"


async def test_deletes_the_named_tenant_and_no_other(http: httpx.AsyncClient, service: ScriptedService) -> None:
    for tenant in ("acme", "other"):
        await http.post("/v1/documents", json={"id": "a.md", "text": "Text.", "tenant": tenant})
    gone = (await http.delete("/v1/tenant", params={"tenant": "acme"})).json()
    assert (gone["id"], gone["deleted"], gone["documents"], gone["passages"]) == ("acme", True, 1, 1)
    assert [key[0] for key in service.documents] == ["other"]


async def test_nobody_deletes_the_default_tenant_by_leaving_a_word_out(http: httpx.AsyncClient) -> None:
    response = await http.delete("/v1/tenant")
    assert (response.status_code, response.json()["error"]["param"]) == (400, "tenant")


async def test_a_key_reaches_its_own_tenant_only() -> None:
    settings = Settings(
        server=ServerSettings(api_keys=(ApiKey(key="secret", tenant="acme"),)),  # type: ignore[arg-type]
        tenants=TenantsSettings(max_passages=7),
    )
    service = ScriptedService(settings)
    service.readiness.warmed()
    transport = httpx.ASGITransport(create_app(service))
    headers = {"authorization": "Bearer secret"}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as http:
        shown = (await http.get("/v1/tenant")).json()
        assert (shown["id"], shown["limits"]["max_passages"]) == ("acme", 7)
        for response in (
            await http.get("/v1/tenant", params={"tenant": "other"}),
            await http.delete("/v1/tenant", params={"tenant": "other"}),
        ):
            assert (response.status_code, response.json()["error"]["code"]) == (403, "forbidden")
        assert (await http.delete("/v1/tenant")).status_code == 200
