"""`python -m slipstream.bench.serve_engine PORT`: a paced engine without weights, as a process that can be killed."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from slipstream.call import Call, Deadline
from slipstream.models.fake_llm import FakeLanguageModel
from slipstream.types import Message, Sampling, Token

NAME = "slipstream"
PREFILL_S, TOKEN_S, TOKENS = 0.5, 0.02, 100


def engine_app(model: FakeLanguageModel) -> Starlette:
    """Chat completions as vLLM streams them; `/load` tells how many run."""

    async def models(request: Request) -> Response:
        return JSONResponse({"data": [{"id": NAME, "owned_by": "paced", "max_model_len": model.context_tokens}]})

    async def load(request: Request) -> Response:
        return JSONResponse({"running": model.load().running})

    async def chat(request: Request) -> Response:
        return StreamingResponse(_events(model, await request.json()), media_type="text/event-stream")

    chat_route = Route("/v1/chat/completions", chat, methods=["POST"])
    return Starlette(routes=[Route("/v1/models", models), Route("/load", load), chat_route])


async def _events(model: FakeLanguageModel, body: dict[str, Any]) -> AsyncIterator[bytes]:
    messages = tuple(Message(message["role"], message["content"]) for message in body["messages"])
    sampling = Sampling(max_tokens=body["max_tokens"])
    async with model.generate(messages, sampling, Call("engine", Deadline(None))) as stream:
        async for tokens in stream:
            for token in tokens:
                for event in _of(token):
                    yield b"data: " + json.dumps(event, ensure_ascii=False).encode() + b"\n\n"
    yield b"data: [DONE]\n\n"


def _of(token: Token) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": {"content": token.text}}]}]
    if token.usage is not None:
        usage = {"prompt_tokens": token.usage.prompt_tokens, "completion_tokens": token.usage.completion_tokens}
        events[0]["choices"][0]["finish_reason"] = token.finish_reason
        events.append({"choices": [], "usage": usage})
    return events


def main() -> None:
    model = FakeLanguageModel(NAME, tokens=TOKENS, prefill_s=PREFILL_S, token_s=TOKEN_S)
    uvicorn.run(engine_app(model), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
