"""The shapes that several endpoints share: a citation, the stages of a call, Server-Timing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from pydantic_core import from_json, to_json

from slipstream.call import Call, Span
from slipstream.types import CacheDecision, Citation, Passage, Query

Json: TypeAlias = dict[str, Any]

_NOT_TOKEN = re.compile(r"[^A-Za-z0-9_.-]")


def citation_json(citation: Citation) -> Json:
    """A citation; `start` and `end` of passage and sentence are character offsets in the document's text."""
    passage = citation.passage
    return {
        "index": citation.index,
        **passage_json(passage),
        "sentence": sentence_json(passage, citation.sentence),
        "score": round(citation.score, 4),
    }


def passage_json(passage: Passage) -> Json:
    return {
        "document": passage.document_id,
        "title": passage.title,
        "source": passage.source,
        "collection": passage.collection,
        "headings": passage.headings,
        "page": passage.page,
        "type": passage.type,
        "time": passage.time,
        "version": passage.version,
        "passage_id": passage.id,
        "start": passage.start,
        "end": passage.end,
        "text": passage.text,
    }


def sentence_json(passage: Passage, span: tuple[int, int]) -> Json:
    start, end = span
    return {"text": passage.text[start:end], "start": passage.start + start, "end": passage.start + end}


_OFF = CacheDecision("off")


def cache_json(decision: CacheDecision | None) -> Json:
    """What the answer cache did; `age_s` is that of the answer served."""
    decision = decision or _OFF
    return {
        "status": decision.status,
        "level": decision.level,
        "age_s": None if decision.age_s is None else round(decision.age_s, 3),
        "verdicts": [{"check": v.check, "passed": v.passed, "detail": v.detail} for v in decision.verdicts],
    }


def query_json(query: Query) -> Json:
    return {"text": query.text, "language": query.language, "rewritten": query.rewritten}


def encode_stages(spans: Sequence[Span]) -> bytes:
    """A JSON array of the finished stages, in the order they began; milliseconds since the call began.

    Written by hand: every answer carries it twice, and a dict for each stage would cost three times as much.
    """
    stages = [
        f'{{"name":{_quoted(span.name)},"start_ms":{span.start_s * 1000:.2f},'
        f'"duration_ms":{(span.end_s - span.start_s) * 1000:.2f}'
        + (f',"detail":{to_json(span.detail).decode()}}}' if span.detail else "}")
        for span in spans
        if span.end_s is not None
    ]
    return f"[{','.join(stages)}]".encode()


def stages_json(spans: Sequence[Span]) -> list[Json]:
    """The same as values."""
    stages: list[Json] = from_json(encode_stages(spans))
    return stages


def server_timing(call: Call) -> str:
    """The `Server-Timing` value: finished stages and the total so far, in milliseconds (W3C Server Timing)."""
    parts = [
        f"{_metric_name(span.name)};dur={(span.end_s - span.start_s) * 1000:.2f}"
        for span in call.spans
        if span.end_s is not None
    ]
    return ", ".join([*parts, f"total;dur={call.elapsed_s() * 1000:.2f}"])


@lru_cache(maxsize=256)
def _quoted(name: str) -> str:
    return to_json(name).decode()


@lru_cache(maxsize=256)
def _metric_name(name: str) -> str:
    return _NOT_TOKEN.sub("_", name)
