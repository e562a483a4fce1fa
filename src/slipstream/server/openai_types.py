"""The bodies of OpenAI's API that are read here, with Slipstream's own fields in one `slipstream` object."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from slipstream.server.search_fields import SearchFields
from slipstream.server.validation import Extension, Request

Name = Annotated[str, Field(min_length=1, max_length=128)]
Collections: TypeAlias = Annotated[tuple[Name, ...], Field(max_length=64, strict=False)]
DeadlineMs: TypeAlias = Annotated[int, Field(ge=1, le=3_600_000)]
Count: TypeAlias = Annotated[int, Field(ge=1, le=2**31 - 1)]
Penalty: TypeAlias = Annotated[float, Field(ge=-2, le=2)]


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


StringOrList: TypeAlias = Annotated[list[str], BeforeValidator(_as_list)]


class SlipstreamFields(SearchFields):
    """The `slipstream` object of a chat request."""

    tenant: str | None = None
    collections: Collections = ()
    """Empty means every collection of the tenant."""
    filters: Any = None
    """See slipstream.server.filters."""
    deadline_ms: DeadlineMs | None = None
    route: Literal["extractive", "small", "large"] | None = None
    cache: Literal["auto", "refresh", "off", "use", "bypass"] | None = None
    """auto serves a stored answer that passes every check, refresh writes a new one and keeps it, off does neither;
    use and bypass are older names of auto and off."""
    cache_max_age_s: Annotated[float, Field(ge=0, le=1e9)] | None = None
    """Oldest stored answer that may serve."""
    cache_tag: Annotated[str, Field(max_length=128)] = ""
    """A name that stored answers can be purged by."""
    passages: Annotated[int, Field(ge=1, le=50)] | None = None


class ChatMessage(Request):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Any = None
    """A string, an array of text parts, or null beside tool calls: see slipstream.server.questions."""
    name: str | None = None
    tool_calls: list[Any] | None = None
    tool_call_id: str | None = None


class StreamOptions(Request):
    include_usage: bool | None = None


class JsonSchema(Request):
    name: str | None = None
    schema_: Annotated[dict[str, Any] | None, Field(alias="schema")] = None


class ResponseFormat(Request):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class ChatRequest(Request):
    """Body of `POST /v1/chat/completions`."""

    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=1_000)]
    model: str = "slipstream"
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    stop: Annotated[StringOrList, Field(max_length=4)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    response_format: ResponseFormat | None = None
    n: int | None = None
    logprobs: bool | None = None
    tools: list[Any] | None = None
    functions: list[Any] | None = None
    tool_choice: Any = None
    function_call: Any = None
    logit_bias: dict[str, Any] | None = None
    slipstream: SlipstreamFields | None = None


class EmbeddingFields(Extension):
    """The `slipstream` object of an embedding request."""

    tenant: str | None = None
    deadline_ms: DeadlineMs | None = None
    kind: Literal["query", "passage"] = "passage"
    """Which side of a search the text is on: the encoder treats the two differently."""


class EmbeddingRequest(Request):
    """Body of `POST /v1/embeddings`."""

    input: Annotated[StringOrList, Field(min_length=1, max_length=256)]
    model: str = ""
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = None
    slipstream: EmbeddingFields | None = None
