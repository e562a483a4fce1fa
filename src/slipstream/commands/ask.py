"""`slipstream ask`: one question, through the running server or over the data directory itself."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
from rich.console import Console

from slipstream.commands import client
from slipstream.commands.local import local_server
from slipstream.commands.terminal import AnswerView
from slipstream.settings import Settings

_CONNECT_S = 0.5
_ANSWER_S = 300.0


async def run_ask(
    settings: Settings,
    text: str,
    *,
    options: Mapping[str, Any],
    server: str | None,
    console: Console,
    as_json: bool,
) -> None:
    async with connected(settings, server, console) as http:
        if as_json:
            reply = await client.ask(http, text, options=options)
            console.print_json(json.dumps(_reply_json(reply), ensure_ascii=False))
            return
        view = AnswerView(console)
        view.question(text)
        reply = await client.ask(http, text, options=options, on_evidence=view.evidence, on_text=view.text)
        view.end(reply.final, reply.total_s)


@asynccontextmanager
async def connected(settings: Settings, server: str | None, console: Console) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the server named, else of the one that runs here, else of one started for this command."""
    base = server or f"http://{settings.server.host}:{settings.server.port}"
    if server is not None or await _answers(base):
        async with http_client(base, settings) as http:
            yield http
        return
    async with local_server(settings, console) as local, http_client(local.base, settings) as http:
        yield http


def http_client(base: str, settings: Settings) -> httpx.AsyncClient:
    """Sends the first configured key, so that commands beside a server with keys work."""
    keys = settings.server.api_keys
    headers = {"authorization": f"Bearer {keys[0].key.get_secret_value()}"} if keys else {}
    timeout = httpx.Timeout(_ANSWER_S, connect=5.0)
    limits = httpx.Limits(max_connections=None)
    return httpx.AsyncClient(base_url=base, headers=headers, timeout=timeout, limits=limits, trust_env=False)


async def _answers(base: str) -> bool:
    try:
        async with httpx.AsyncClient(timeout=_CONNECT_S, trust_env=False) as http:
            return (await http.get(f"{base}/readyz")).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


def _reply_json(reply: client.Reply) -> dict[str, Any]:
    return {
        "answer": reply.text,
        "evidence": list(reply.citations),
        "evidence_ms": None if reply.evidence_s is None else round(1e3 * reply.evidence_s, 1),
        "first_token_ms": None if reply.first_token_s is None else round(1e3 * reply.first_token_s, 1),
        "total_ms": round(1e3 * reply.total_s, 1),
        **reply.final,
    }
