"""`"explain": true`: what each leg found, how it was fused, what reranking and shaping made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slipstream.server.base import SearchResult
from slipstream.server.wire import Json
from slipstream.types import Leg, Passage, Passages


def explanation_json(found: SearchResult, limit: int) -> Json:
    """The first `limit` of every list; `passages` names what they hold, by passage id."""
    ranked = found.ranked or found.passages
    shown = {item.passage.id: item.passage for item in (*ranked.items, *found.passages.items)}
    named = {passage.id: passage for passage in found.named} | shown
    return {
        "explain": {
            "query": {"text": found.passages.query.text, "reason": found.passages.query.reason},
            "legs": [_leg_json(leg, limit) for leg in found.legs],
            "fused": [
                {
                    "rank": rank,
                    "passage_id": item.passage_id,
                    "score": item.score,
                    "dense_rank": item.dense_rank,
                    "sparse_rank": item.sparse_rank,
                }
                for rank, item in enumerate(found.candidates[:limit], 1)
            ],
            "reranked": _ranked_json(ranked, limit),
            "collapsed": _collapsed(ranked, found.passages),
            "passages": _names_json(named),
        }
    }


def _leg_json(leg: Leg, limit: int) -> Json:
    hits = [
        {"rank": rank, "passage_id": hit.passage_id, "score": round(hit.score, 4)}
        for rank, hit in enumerate(leg.hits[:limit], 1)
    ]
    return {"leg": leg.kind, "query": leg.query, "found": len(leg.hits), "hits": hits}


def _ranked_json(ranked: Passages, limit: int) -> list[Json]:
    return [
        {"rank": rank, "passage_id": item.passage.id, "score": round(item.score, 4), "scorer": item.scorer}
        for rank, item in enumerate(ranked.items[:limit], 1)
    ]


def _collapsed(ranked: Passages, shown: Passages) -> Sequence[str]:
    """Ids that stood before the last one shown and are not: duplicates, or beyond their document's share."""
    kept = {item.passage.id for item in shown.items}
    places = [place for place, item in enumerate(ranked.items) if item.passage.id in kept]
    last = places[-1] if places else 0
    return [item.passage.id for item in ranked.items[:last] if item.passage.id not in kept]


def _names_json(named: Mapping[str, Passage]) -> Json:
    return {
        passage_id: {
            "document": passage.document_id,
            "source": passage.source,
            "title": passage.title,
            "headings": passage.headings,
            "position": passage.position,
            "text": passage.text[:200],
        }
        for passage_id, passage in named.items()
    }
