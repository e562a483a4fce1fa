"""OpenAI's endpoints: chat completions, models, embeddings."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator

import numpy as np
from pydantic_core import to_json

from slipstream.call import Call
from slipstream.errors import Bug, InvalidRequest, NotFound
from slipstream.server.auth import resolve_tenant
from slipstream.server.base import ModelCard, Service
from slipstream.server.before_wait import BeforeWait
from slipstream.server.chat_wire import ChunkEncoder, completion
from slipstream.server.deadlines import deadline_ms
from slipstream.server.disconnect import while_connected
from slipstream.server.exchange import JSON_TYPE, Exchange
from slipstream.server.failures import failure_of
from slipstream.server.openai_types import ChatRequest, EmbeddingFields, EmbeddingRequest
from slipstream.server.questions import AUTO_MODEL, question_of
from slipstream.server.sse import EventStream, error_event
from slipstream.server.validation import parse
from slipstream.server.wire import Json, server_timing
from slipstream.types import Encoding, Event, Finished, Found, Question

_INLINE_NUMBERS = 4_096
"""Embeddings of no more numbers (about 0.5 ms of encoding) are not worth a thread."""


async def chat_completions(exchange: Exchange, service: Service) -> None:
    """`POST /v1/chat/completions`"""
    service.refuse_if_full(exchange.tenant)
    request = parse(ChatRequest, await exchange.json_body())
    question = question_of(request, exchange.tenant, service.models, service.settings.answer)
    within_ms = deadline_ms(exchange, request.slipstream.deadline_ms if request.slipstream else None)
    call = exchange.call = service.open_call(question.scope.tenant, within_ms, exchange.request_id)
    if request.stream:
        usage = bool(request.stream_options and request.stream_options.include_usage)
        encoder = ChunkEncoder(call, request.model, usage)
        await while_connected(exchange.receive, lambda: _stream(exchange, service, question, call, encoder))
    else:
        await while_connected(exchange.receive, lambda: _whole(exchange, service, question, call, request.model))


async def _stream(exchange: Exchange, service: Service, question: Question, call: Call, encoder: ChunkEncoder) -> None:
    stream = EventStream(exchange)
    try:
        async with service.answer(question, call) as events:
            await _send_events(events, stream, encoder)
    except Exception as error:
        if not exchange.started:
            raise
        failure = failure_of(error, exchange.request_id)
        exchange.status = failure.status  # what log and metrics say; the client has had its 200
        stream.add(error_event(failure.body))
    await stream.close()


async def _send_events(events: AsyncIterator[Event], stream: EventStream, encoder: ChunkEncoder) -> None:
    while True:
        try:
            event = await BeforeWait(events.__anext__(), stream.flush)
        except StopAsyncIteration:
            raise Bug("The answer ended without being finished.", code="generation_cut_short") from None
        if isinstance(event, tuple):
            stream.add(encoder.text(event))
        elif isinstance(event, Found):
            stream.add(encoder.evidence(event))
        else:
            stream.add(encoder.finished(event))
            return
        if stream.full:
            await stream.flush()


async def _whole(exchange: Exchange, service: Service, question: Question, call: Call, model: str) -> None:
    found: Found | None = None
    finished: Finished | None = None
    async with service.answer(question, call) as events:
        async for event in events:
            if isinstance(event, Found):
                found = event
            elif isinstance(event, Finished):
                finished = event
    if finished is None:
        raise Bug("The answer ended without being finished.", code="generation_cut_short")
    body = completion(call, model, found, finished.answer)
    await exchange.respond(200, body, [JSON_TYPE, (b"server-timing", server_timing(call).encode())])


async def list_models(exchange: Exchange, service: Service) -> None:
    """`GET /v1/models`"""
    cards = [_auto_json(service), *map(_model_json, service.models)]
    await exchange.respond(200, to_json({"object": "list", "data": cards}))


async def get_model(exchange: Exchange, service: Service) -> None:
    """`GET /v1/models/{id}`"""
    wanted = exchange.path_value("model")
    for card in [_auto_json(service), *map(_model_json, service.models)]:
        if card["id"] == wanted:
            await exchange.respond(200, to_json(card))
            return
    raise NotFound(f'There is no model "{wanted}" here; see GET /v1/models.', code="model_not_found", param="model")


def _model_json(card: ModelCard) -> Json:
    own = {"tier": card.tier}
    return {"id": card.id, "object": "model", "created": card.created, "owned_by": card.owned_by, "slipstream": own}


def _auto_json(service: Service) -> Json:
    created = max((card.created for card in service.models), default=0)
    own = {"tier": None}
    return {"id": AUTO_MODEL, "object": "model", "created": created, "owned_by": AUTO_MODEL, "slipstream": own}


async def embeddings(exchange: Exchange, service: Service) -> None:
    """`POST /v1/embeddings`"""
    request = parse(EmbeddingRequest, await exchange.json_body())
    own = request.slipstream or EmbeddingFields()
    tenant = resolve_tenant(exchange.tenant, own.tenant)
    encoders = [card.id for card in service.models if card.tier is None]
    if request.model not in {"", AUTO_MODEL, *encoders}:
        names = ", ".join(encoders)
        message = f'"{request.model}" gives no embeddings here; there is {names}.'
        raise NotFound(message, code="model_not_found", param="model")
    call = exchange.call = service.open_call(tenant, deadline_ms(exchange, own.deadline_ms), exchange.request_id)

    async def work() -> None:
        encodings = await service.embed(request.input, own.kind, call)
        name = encoders[0] if encoders else request.model
        small = sum(len(encoding.dense) for encoding in encodings) <= _INLINE_NUMBERS
        encode = (encodings, request, name)
        body = _embeddings_body(*encode) if small else await asyncio.to_thread(_embeddings_body, *encode)
        await exchange.respond(200, body, [JSON_TYPE, (b"server-timing", server_timing(call).encode())])

    await while_connected(exchange.receive, work)


def _embeddings_body(encodings: list[Encoding], request: EmbeddingRequest, model: str) -> bytes:
    """Vector by vector, so that on a thread it lets the event loop in between."""
    size = len(encodings[0].dense)
    if request.dimensions not in {None, size}:
        message = f"The encoder's vectors have {size} dimensions; leave dimensions out."
        raise InvalidRequest(message, param="dimensions", code="invalid_value")
    tokens = sum(len(encoding.tokens) for encoding in encodings)
    data = b",".join(
        to_json({"object": "embedding", "index": index, "embedding": _vector(encoding, request.encoding_format)})
        for index, encoding in enumerate(encodings)
    )
    around = {"object": "list", "model": model, "usage": {"prompt_tokens": tokens, "total_tokens": tokens}}
    return to_json(around)[:-1] + b',"data":[' + data + b"]}"


def _vector(encoding: Encoding, encoding_format: str | None) -> str | list[float]:
    dense = encoding.dense.astype(np.float32)
    return base64.b64encode(dense.tobytes()).decode() if encoding_format == "base64" else dense.tolist()
