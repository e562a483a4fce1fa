"""`POST /v1/search`: the retrieval half of an answer, with the ranks each leg gave."""

from __future__ import annotations

from dataclasses import replace

from pydantic_core import to_json

from slipstream.call import Call
from slipstream.errors import InvalidRequest
from slipstream.server.auth import resolve_tenant
from slipstream.server.base import SearchResult, Service
from slipstream.server.deadlines import deadline_ms
from slipstream.server.disconnect import while_connected
from slipstream.server.exchange import JSON_TYPE, Exchange
from slipstream.server.explain_wire import explanation_json
from slipstream.server.filters import parse_filter
from slipstream.server.search_fields import search_options
from slipstream.server.search_types import SearchRequest
from slipstream.server.validation import parse
from slipstream.server.wire import Json, passage_json, query_json, sentence_json, server_timing, stages_json
from slipstream.types import Candidate, Evidence, Question, Scope, SearchOptions


async def search(exchange: Exchange, service: Service) -> None:
    request = parse(SearchRequest, await exchange.json_body())
    question = _question(request, exchange.tenant)
    within_ms = deadline_ms(exchange, request.deadline_ms)
    call = exchange.call = service.open_call(question.scope.tenant, within_ms, exchange.request_id)

    async def work() -> None:
        limit, rerank, explain = request.limit, request.rerank, request.explain
        found = await service.search(question, call, limit=limit, rerank=rerank, explain=explain)
        body = to_json({**_result_json(found, call), **(explanation_json(found, limit) if explain else {})})
        await exchange.respond(200, body, [JSON_TYPE, (b"server-timing", server_timing(call).encode())])

    await while_connected(exchange.receive, work)


def _question(request: SearchRequest, bound_tenant: str | None) -> Question:
    if not request.query.strip() or "\0" in request.query:
        raise InvalidRequest("The query must hold text, without NUL characters.", param="query", code="invalid_value")
    return Question(
        text=request.query,
        scope=Scope(
            tenant=resolve_tenant(bound_tenant, request.tenant, "tenant"),
            collections=request.collections,
            filter=parse_filter(request.filters, "filters"),
        ),
        passages=request.limit,
        candidates=request.candidates,
        search=_options(request),
    )


def _options(request: SearchRequest) -> SearchOptions:
    """A search shows what there is: a document's share is bounded only when the request says so."""
    options = search_options(request)
    return replace(options, per_document=0) if options.per_document is None else options


def _result_json(found: SearchResult, call: Call) -> Json:
    candidates = {candidate.passage_id: candidate for candidate in found.candidates}
    return {
        "object": "list",
        "query": query_json(found.passages.query),
        "data": [
            _item_json(rank, item, candidates.get(item.passage.id)) for rank, item in enumerate(found.passages.items, 1)
        ],
        "degraded": call.degraded,
        "stages": stages_json(call.spans),
    }


def _item_json(rank: int, item: Evidence, candidate: Candidate | None) -> Json:
    """Ranks are 1-based; null where a leg did not find the passage."""
    return {
        "rank": rank,
        "score": round(item.score, 4),
        "scorer": item.scorer,
        "dense_rank": candidate.dense_rank if candidate else None,
        "sparse_rank": candidate.sparse_rank if candidate else None,
        "fused_score": candidate.score if candidate else None,
        **passage_json(item.passage),
        "sentence": {**sentence_json(item.passage, item.sentence), "score": round(item.sentence_score, 4)},
    }
