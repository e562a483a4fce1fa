"""Documents over HTTP: three ways in, and back out."""

from __future__ import annotations

import httpx
import pytest

from slipstream.server.fake import ScriptedService

pytestmark = pytest.mark.anyio

PATH = "/v1/documents"


async def test_text_as_json_is_created_then_replaced_then_unchanged(http: httpx.AsyncClient) -> None:
    document = {"name": "rooms.md", "text": "The flat has 3 rooms.", "metadata": {"floor": 2}, "time": "2024-01-31"}
    created = await http.post(PATH, json=document)
    assert (created.status_code, created.json()["outcome"], created.json()["id"]) == (201, "created", "rooms.md")
    assert created.json()["time"] == 1_706_659_200.0
    replaced = await http.put(f"{PATH}/rooms.md", json={"text": "2 rooms."})
    assert (replaced.status_code, replaced.json()["outcome"]) == (200, "replaced")
    same = await http.put(f"{PATH}/rooms.md", json={"text": "2 rooms."})
    assert same.json()["outcome"] == "unchanged"


async def test_bare_bytes(http: httpx.AsyncClient) -> None:
    response = await http.post(
        PATH,
        params={"name": "报告.pdf", "collection": "c"},
        content=b"%PDF",
        headers={"content-type": "application/pdf"},
    )
    assert response.status_code == 201
    shown = (await http.get(f"{PATH}/报告.pdf", params={"collection": "c"})).json()
    assert (shown["id"], shown["type"], shown["collection"]) == ("报告.pdf", "application/pdf", "c")
    nameless = await http.post(PATH, content=b"x", headers={"content-type": "text/plain"})
    assert (nameless.status_code, nameless.json()["error"]["param"]) == (400, "name")


async def test_a_form_of_files_reports_the_bad_one_and_takes_the_rest(http: httpx.AsyncClient) -> None:
    files = [
        ("files", ("a.txt", b"alpha", "text/plain")),
        ("files", ("empty.txt", b" ", "text/plain")),
        ("files", ("b.md", b"beta", "text/markdown")),
    ]
    response = await http.post(PATH, files=files, data={"collection": "c", "metadata": '{"kind": "note"}'})
    results = response.json()["data"]
    assert (response.status_code, response.json()["failed"]) == (200, 1)
    assert [r.get("outcome") for r in results] == ["created", None, "created"]
    assert (results[1]["name"], results[1]["error"]["code"]) == ("empty.txt", "unusable_data")
    one = await http.post(PATH, files={"file": ("empty.txt", b"")})
    assert (one.status_code, one.json()["error"]["code"]) == (422, "unusable_data")
    named = await http.put(f"{PATH}/dir/x.txt", files={"file": ("a.txt", b"alpha")})
    assert named.json()["id"] == "dir/x.txt"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"text": "x"}, "name"),
        ({"name": "x"}, "text"),
        ({"name": "", "text": "x"}, "name"),
        ({"name": "a\nb", "text": "x"}, "name"),
        ({"name": "a", "text": 5}, "text"),
        ({"name": "a", "text": "x", "metadata": {"k": []}}, "metadata"),
        ({"name": "a", "text": "x", "time": "soon"}, "time"),
        ({"name": "a", "text": "x", "time": 10**400}, "time"),
        ({"name": "a", "text": "x", "type": "image/png"}, "type"),
        ({"name": "a", "text": "x", "colection": "c"}, "colection"),
    ],
)
async def test_a_fault_names_its_field(http: httpx.AsyncClient, body: dict[str, object], param: str) -> None:
    response = await http.post(PATH, json=body)
    assert response.status_code == 400
    assert response.json()["error"]["param"].startswith(param)


async def test_a_body_over_the_limit(http: httpx.AsyncClient, service: ScriptedService) -> None:
    too_much = b"x" * ((service.settings.server.max_body_mib << 20) + 1)
    assert (await http.post(PATH, files={"file": ("a.txt", too_much)})).status_code == 413
    assert not service.documents


async def test_list_pages_show_and_delete(http: httpx.AsyncClient) -> None:
    for name in ("a", "b", "c"):
        await http.post(PATH, json={"name": name, "text": name})
    await http.post(PATH, json={"name": "z", "text": "z", "tenant": "other"})
    first = (await http.get(PATH, params={"limit": 2})).json()
    assert ([d["id"] for d in first["data"]], first["has_more"]) == (["a", "b"], True)
    assert first["next"] == {"after": "b", "after_collection": "default"}
    rest = (await http.get(PATH, params={"limit": 2, **first["next"]})).json()
    assert ([d["id"] for d in rest["data"]], rest["has_more"], rest["next"]) == (["c"], False, None)
    alone = await http.get(PATH, params={"after": "b"})
    assert (alone.status_code, alone.json()["error"]["param"]) == (400, "after_collection")
    assert (await http.delete(f"{PATH}/a")).json() == {"id": "a", "object": "document", "deleted": True}
    for response in (await http.delete(f"{PATH}/a"), await http.get(f"{PATH}/a"), await http.get(f"{PATH}/z")):
        assert (response.status_code, response.json()["error"]["code"]) == (404, "document_not_found")
    assert (await http.get(PATH, params={"limit": "all"})).status_code == 400


async def test_the_ids_in_path_and_body_agree(http: httpx.AsyncClient) -> None:
    response = await http.put(f"{PATH}/a", json={"id": "b", "text": "x"})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "id")


@pytest.mark.parametrize("digits", ["9" * 5_000, "9" * 8])
async def test_counts_of_any_length_are_refused(http: httpx.AsyncClient, digits: str) -> None:
    limit = await http.get(PATH, params={"limit": digits})
    assert (limit.status_code, limit.json()["error"]["param"]) == (400, "limit")
    deadline = await http.get(PATH, headers={"x-slipstream-deadline-ms": digits})
    assert deadline.status_code == 400
