"""The yardstick of the wire's overhead: a bare Starlette endpoint that streams given bytes and does nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

PATH = "/v1/chat/completions"


def bare_app(chunks: Sequence[bytes]) -> Starlette:
    """Reads the request's body, then streams the chunks, one write each, as a plain program would."""

    async def body() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    async def endpoint(request: Request) -> StreamingResponse:
        await request.json()
        return StreamingResponse(body(), media_type="text/event-stream")

    return Starlette(routes=[Route(PATH, endpoint, methods=["POST"])])
