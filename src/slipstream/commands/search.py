"""`slipstream search`: what each leg finds, how it is fused and reranked, side by side, and what each step took."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import httpx
from rich.console import Console

from slipstream.commands.ask import connected
from slipstream.commands.client import Json, failure, unreachable
from slipstream.commands.search_view import SearchView
from slipstream.settings import Settings


async def run_search(
    settings: Settings,
    text: str,
    *,
    options: Mapping[str, Any],
    server: str | None,
    console: Console,
    as_json: bool,
) -> None:
    async with connected(settings, server, console) as http:
        found = await search(http, text, options)
    if as_json:
        console.print_json(json.dumps(found, ensure_ascii=False))
    else:
        SearchView(console).show(text, found)


async def search(http: httpx.AsyncClient, text: str, options: Mapping[str, Any]) -> Json:
    """Raises SlipstreamError with the server's own words when it refuses, Unavailable when it is not there."""
    try:
        response = await http.post("/v1/search", json={"query": text, "explain": True, **options})
    except httpx.TransportError as error:
        raise unreachable(http, error) from None
    if response.status_code != httpx.codes.OK:
        raise failure(response)
    found: Json = response.json()
    return found
