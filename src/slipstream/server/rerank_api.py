"""`POST /v1/rerank`, in Jina's and Cohere's shape: texts that come with the request, ranked against its query."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic_core import to_json

from slipstream.call import Call
from slipstream.errors import InvalidRequest
from slipstream.server.auth import resolve_tenant
from slipstream.server.base import RankedTexts, Service
from slipstream.server.deadlines import deadline_ms
from slipstream.server.disconnect import while_connected
from slipstream.server.exchange import JSON_TYPE, Exchange
from slipstream.server.questions import AUTO_MODEL
from slipstream.server.rerank_types import Document, RerankFields, RerankRequest
from slipstream.server.validation import parse
from slipstream.server.wire import Json, server_timing


async def rerank(exchange: Exchange, service: Service) -> None:
    request = parse(RerankRequest, await exchange.json_body())
    if not request.query.strip():
        raise InvalidRequest("The query must hold text.", param="query", code="invalid_value")
    texts = [_text(document, place, request.rank_fields) for place, document in enumerate(request.documents)]
    own = request.slipstream or RerankFields()
    tenant = resolve_tenant(exchange.tenant, own.tenant)
    model = None if request.model in {"", AUTO_MODEL} else request.model
    call = exchange.call = service.open_call(tenant, deadline_ms(exchange, own.deadline_ms), exchange.request_id)

    async def work() -> None:
        ranked = await service.rerank(request.query, texts, model, call)
        body = to_json(_body(request, texts, ranked, call))
        await exchange.respond(200, body, [JSON_TYPE, (b"server-timing", server_timing(call).encode())])

    await while_connected(exchange.receive, work)


def _text(document: Document, place: int, fields: Sequence[str] | None) -> str:
    """Objects without `rank_fields` are ranked by their text; with them, by those fields, a line each."""
    if isinstance(document, str):
        return document
    named = fields or ["text"]
    values = [document.get(name) for name in named]
    if not all(isinstance(value, str) for value in values):
        wanted = ", ".join(named)
        raise InvalidRequest(
            f"documents[{place}] needs {wanted} as text.", param=f"documents[{place}]", code="invalid_value"
        )
    return (
        "\n".join(f"{name}: {value}" for name, value in zip(named, values, strict=True)) if fields else str(values[0])
    )


def _body(request: RerankRequest, texts: Sequence[str], ranked: RankedTexts, call: Call) -> Json:
    best = sorted(range(len(texts)), key=lambda place: (-ranked.scores[place], place))[: request.top_n]
    return {
        "id": call.request_id,
        "object": "list",
        "model": ranked.model,
        "results": [_result(request, texts, ranked, place) for place in best],
        "usage": {"prompt_tokens": ranked.tokens, "total_tokens": ranked.tokens},
        "meta": {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}},
        "slipstream": {"scorer": ranked.scorer, "degraded": call.degraded},
    }


def _result(request: RerankRequest, texts: Sequence[str], ranked: RankedTexts, place: int) -> Json:
    result: Json = {"index": place, "relevance_score": ranked.scores[place]}
    if request.return_documents:
        document = request.documents[place]
        result["document"] = {"text": texts[place]} if isinstance(document, str) else document
    return result
