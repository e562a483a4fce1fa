"""Embeddings on the wire: many numbers are written off the event loop, and the input is bounded."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import httpx
import numpy as np
import pytest

from slipstream.call import Call
from slipstream.models.base import TextKind
from slipstream.server.app import create_app
from slipstream.server.fake import ScriptedService
from slipstream.settings import Settings
from slipstream.types import Encoding

pytestmark = pytest.mark.anyio

WIDE = 384


class Watched(np.ndarray[Any, np.dtype[np.float32]]):
    """Knows on which threads it was turned into a list."""

    threads: set[str]

    def tolist(self) -> Any:
        Watched.threads.add(threading.current_thread().name)
        return super().tolist()


class Wide(ScriptedService):
    async def embed(self, texts: Sequence[str], kind: TextKind, call: Call) -> list[Encoding]:
        vector = np.linspace(0, 1, WIDE, dtype=np.float32).view(Watched)
        return [replace(encoding, dense=vector) for encoding in await super().embed(texts, kind, call)]


@pytest.mark.parametrize(("texts", "on_loop"), [(1, True), (256, False)])
async def test_many_numbers_are_written_off_the_loop(texts: int, on_loop: bool) -> None:
    service = Wide(Settings())
    service.readiness.warmed()
    Watched.threads = set()
    transport = httpx.ASGITransport(create_app(service))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        body = (await http.post("/v1/embeddings", json={"input": ["a b"] * texts})).json()
    assert ({"MainThread"} == Watched.threads) is on_loop
    assert [item["index"] for item in body["data"]] == list(range(texts))
    assert np.allclose(body["data"][-1]["embedding"], np.linspace(0, 1, WIDE))
    assert body["usage"] == {"prompt_tokens": 2 * texts, "total_tokens": 2 * texts}
    assert body["object"] == "list"


async def test_more_texts_than_the_bound_are_refused(http: httpx.AsyncClient) -> None:
    response = await http.post("/v1/embeddings", json={"input": ["a"] * 257})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "input")
