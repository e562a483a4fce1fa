"""Events of an answer → the bytes of OpenAI's chat completion, whole or in chunks."""

from __future__ import annotations

import time
from collections.abc import Iterable
from json.encoder import encode_basestring

from pydantic_core import to_json

from slipstream.call import Call
from slipstream.server.wire import Json, cache_json, citation_json, encode_stages, query_json, server_timing
from slipstream.types import Answer, Citation, Finished, Found, Tokens, Usage

DONE = b"data: [DONE]\n\n"


class ChunkEncoder:
    """Encodes one stream. What all its chunks share is encoded once."""

    __slots__ = ("_after_text", "_before_text", "_call", "_found", "_head", "_include_usage", "_usage_null")

    def __init__(self, call: Call, model: str, include_usage: bool) -> None:
        head = to_json(_envelope(call, "chat.completion.chunk", model))
        self._head = b"data: " + head[:-1]
        self._usage_null = b',"usage":null' if include_usage else b""
        self._before_text = self._head + b',"choices":[{"index":0,"delta":{"content":'
        self._after_text = b'},"logprobs":null,"finish_reason":null}]' + self._usage_null + b"}\n\n"
        self._include_usage = include_usage
        self._call = call

    def evidence(self, found: Found) -> bytes:
        """The first chunk: the role, and in `slipstream` what was found."""
        own = {"event": "evidence", **_evidence_json(found)}
        return self._chunk({"role": "assistant", "content": ""}, None, own)

    def text(self, tokens: Tokens) -> bytes:
        """A chunk for each; none for a token without text: its finish reason travels with the finished answer."""
        before, after = self._before_text, self._after_text
        return b"".join([before + encode_basestring(token.text).encode() + after for token in tokens if token.text])

    def finished(self, finished: Finished) -> bytes:
        """The closing chunks: finish reason and stages, then the usage when asked for, then [DONE]."""
        answer = finished.answer
        own = {"event": "finished", **_answer_json(answer, self._call)}
        closing = self._chunk({}, answer.finish_reason, own)
        if self._include_usage:
            closing += self._head + b',"choices":[],"usage":' + to_json(usage_json(answer.usage)) + b"}\n\n"
        return closing + DONE

    def _chunk(self, delta: Json, finish_reason: str | None, own: Json) -> bytes:
        choices = [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}]
        body = to_json({"choices": choices, "slipstream": own})
        stages = encode_stages(self._call.spans)
        return b"".join((self._head, b",", body[1:-2], b',"stages":', stages, b"}", self._usage_null, b"}\n\n"))


def completion(call: Call, model: str, found: Found | None, answer: Answer) -> bytes:
    """The body of an answer that is not streamed."""
    message = {"role": "assistant", "content": answer.text, "refusal": None}
    body = to_json(
        {
            **_envelope(call, "chat.completion", model),
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": answer.finish_reason}],
            "usage": usage_json(answer.usage),
            "slipstream": {
                **_answer_json(answer, call),
                "evidence": _citations_json(found.citations) if found else [],
                "query": query_json(found.query) if found else None,
            },
        }
    )
    return b"".join((body[:-2], b',"stages":', encode_stages(call.spans), b"}}"))


def usage_json(usage: Usage) -> Json:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def _envelope(call: Call, kind: str, model: str) -> Json:
    return {"id": f"chatcmpl-{call.request_id}", "object": kind, "created": int(time.time()), "model": model}


def _evidence_json(found: Found) -> Json:
    return {"citations": _citations_json(found.citations), "query": query_json(found.query)}


def _answer_json(answer: Answer, call: Call) -> Json:
    """`citations` are those the answer refers to, by first appearance."""
    return {
        "citations": _citations_json(answer.citations),
        "supported": answer.supported,
        "route": answer.tier,
        "model": answer.model,
        "degraded": call.degraded,
        "cache": cache_json(answer.cache),
        "usage": usage_json(answer.usage),
        "server_timing": server_timing(call),
    }


def _citations_json(citations: Iterable[Citation]) -> list[Json]:
    return [citation_json(citation) for citation in citations]
