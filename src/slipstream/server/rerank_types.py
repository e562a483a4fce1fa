"""The body of `POST /v1/rerank`: what Jina's, Cohere's (v1, v2) and vLLM's clients send."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import Field

from slipstream.server.openai_types import DeadlineMs
from slipstream.server.validation import Extension, Request

MAX_DOCUMENTS = 1_000
Document: TypeAlias = str | dict[str, Any]
"""A text, or an object that holds one in `text`, or in the fields that `rank_fields` names."""


class RerankFields(Extension):
    """The `slipstream` object of a reranking request."""

    tenant: str | None = None
    deadline_ms: DeadlineMs | None = None


class RerankRequest(Request):
    query: Annotated[str, Field(min_length=1, max_length=32_768)]
    documents: Annotated[list[Document], Field(min_length=1, max_length=MAX_DOCUMENTS)]
    model: str = ""
    top_n: Annotated[int, Field(ge=1)] | None = None
    return_documents: bool = False
    rank_fields: list[str] | None = None
    slipstream: RerankFields | None = None
