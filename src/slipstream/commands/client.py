"""The command line's own client: asks a Slipstream server and times what comes back."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from slipstream.errors import SlipstreamError, TryAgain, Unavailable

Json = dict[str, Any]


@dataclass(slots=True)
class Reply:
    """One streamed answer, as it arrived; times are seconds since the request was sent."""

    text: str = ""
    citations: Sequence[Json] = ()
    """The evidence, as the first chunk brought it."""
    final: Json = field(default_factory=dict)
    """Slipstream's object of the last chunk: stages, route, degraded, citations of the answer."""
    evidence_s: float | None = None
    first_token_s: float | None = None
    total_s: float = 0.0
    gaps_s: list[float] = field(default_factory=list)
    """Between one piece of text and the next."""


async def ask(
    http: httpx.AsyncClient,
    question: str,
    *,
    options: Mapping[str, Any] | None = None,
    history: Sequence[Json] = (),
    max_tokens: int | None = None,
    on_evidence: Callable[[Sequence[Json]], None] = lambda _: None,
    on_text: Callable[[str], None] = lambda _: None,
) -> Reply:
    """Asks one question over `/v1/chat/completions`, streaming.

    Raises SlipstreamError with the server's own words when it refuses or fails, Unavailable when it is not there.
    """
    body: Json = {
        "model": "slipstream",
        "messages": [*history, {"role": "user", "content": question}],
        "stream": True,
        "slipstream": dict(options or {}),
    }
    if max_tokens is not None:
        body["max_tokens"] = max_tokens
    reply, began = Reply(), time.perf_counter()
    last_text = began
    async for chunk in _events(http, body):
        now = time.perf_counter()
        own = chunk.get("slipstream") or {}
        if own.get("event") == "evidence":
            reply.evidence_s, reply.citations = now - began, own.get("citations", ())
            on_evidence(reply.citations)
        elif own:
            reply.final = own
        text = "".join(choice["delta"].get("content") or "" for choice in chunk.get("choices", ()))
        if text:
            if reply.first_token_s is None:
                reply.first_token_s = now - began
            else:
                reply.gaps_s.append(now - last_text)
            last_text = now
            reply.text += text
            on_text(text)
    reply.total_s = time.perf_counter() - began
    return reply


async def _events(http: httpx.AsyncClient, body: Json) -> AsyncIterator[Json]:
    try:
        async with http.stream("POST", "/v1/chat/completions", json=body) as response:
            if response.status_code != httpx.codes.OK:
                await response.aread()
                raise failure(response)
            async for line in response.aiter_lines():
                if line.startswith("data: ") and line != "data: [DONE]":
                    chunk = json.loads(line[6:])
                    if "error" in chunk:
                        raise SlipstreamError(chunk["error"]["message"], code=chunk["error"]["code"])
                    yield chunk
    except httpx.TransportError as error:
        raise unreachable(http, error) from None


def failure(response: httpx.Response) -> SlipstreamError:
    """The server's refusal as the error it was."""
    try:
        error = response.json()["error"]
        message, code = str(error["message"]), str(error["code"])
    except (ValueError, KeyError, TypeError):
        message, code = f"The server answered {response.status_code}.", "bad_response"
    kind = TryAgain if response.status_code in (429, 503, 504) else SlipstreamError
    return kind(message, code=code)


def unreachable(http: httpx.AsyncClient, error: httpx.TransportError) -> Unavailable:
    return Unavailable(
        f"No answer from {http.base_url} ({type(error).__name__}). Start a server with `slipstream serve`, "
        "or name another with --server."
    )
