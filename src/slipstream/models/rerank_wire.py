"""The wire shapes of reranking servers, in one table: path, body, and where the scores stand in the reply."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from slipstream.settings import RerankApi

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class WireShape:
    path: str
    body: Callable[[str, str, Sequence[str]], Json]
    """(model, query, passages) → the request."""
    rows: str
    """The reply's field that holds the list of scores; empty when the reply is that list."""
    score: str
    """A row's field with the score; its place is in `index`."""


def _tei(model: str, query: str, passages: Sequence[str]) -> Json:
    return {"query": query, "texts": passages, "raw_scores": False, "return_text": False, "truncate": True}


def _documents(model: str, query: str, passages: Sequence[str]) -> Json:
    """What Jina, Infinity, Cohere and vLLM have in common."""
    named = {"model": model} if model else {}
    return {**named, "query": query, "documents": passages, "top_n": len(passages)}


def _without_texts(model: str, query: str, passages: Sequence[str]) -> Json:
    return {**_documents(model, query, passages), "return_documents": False}


def _score(model: str, query: str, passages: Sequence[str]) -> Json:
    named = {"model": model} if model else {}
    return {**named, "text_1": query, "text_2": passages}


SHAPES: dict[RerankApi, WireShape] = {
    "tei": WireShape("/rerank", _tei, "", "score"),
    "infinity": WireShape("/rerank", _without_texts, "results", "relevance_score"),
    "jina": WireShape("/v1/rerank", _without_texts, "results", "relevance_score"),
    "cohere": WireShape("/v2/rerank", _documents, "results", "relevance_score"),
    "cohere-v1": WireShape("/v1/rerank", _without_texts, "results", "relevance_score"),
    "vllm": WireShape("/rerank", _documents, "results", "relevance_score"),
    "vllm-score": WireShape("/score", _score, "data", "score"),
}


class WrongReply(ValueError):
    """The reply is not of the shape that was agreed; the message says how."""


def scores_in(shape: WireShape, reply: Any, count: int) -> list[float]:
    """The scores in the order the passages were sent.

    Raises WrongReply unless there is exactly one finite number for each.
    """
    rows = reply.get(shape.rows) if shape.rows and isinstance(reply, dict) else reply
    if not isinstance(rows, list):
        raise WrongReply(f"it has no list {shape.rows or 'of scores'}")
    scores: dict[int, float] = {}
    for row in rows:
        index = row.get("index") if isinstance(row, dict) else None
        score = _finite(row[shape.score]) if isinstance(row, dict) and shape.score in row else None
        if type(index) is not int or score is None:
            raise WrongReply(f"a row is not an index with a finite {shape.score}")
        scores[index] = score
    if len(rows) != count or set(scores) != set(range(count)):
        raise WrongReply(f"it scores {len(scores)} of {count} passages")
    return [scores[place] for place in range(count)]


def _finite(value: Any) -> float | None:
    if type(value) not in (int, float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def endpoint(base: str, shape: WireShape) -> str:
    """The URL to post to: a base that ends in the shape's path already, or in the beginning of it, is not repeated."""
    base = base.rstrip("/")
    if base.endswith(shape.path):
        return base
    first = "/" + shape.path.split("/")[1]
    return (base.removesuffix(first) if shape.path.count("/") > 1 else base) + shape.path
