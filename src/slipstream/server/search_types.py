"""The body of `POST /v1/search`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from slipstream.server.openai_types import Collections, DeadlineMs
from slipstream.server.validation import Extension


class SearchRequest(Extension):
    query: Annotated[str, Field(min_length=1, max_length=32_768)]
    mode: Literal["hybrid", "dense", "sparse"] = "hybrid"
    limit: Annotated[int, Field(ge=1, le=100)] = 10
    rerank: bool = True
    tenant: str | None = None
    collections: Collections = ()
    filters: Any = None
    """See slipstream.server.filters."""
    deadline_ms: DeadlineMs | None = None
