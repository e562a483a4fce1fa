"""The body of `POST /v1/search`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from slipstream.server.openai_types import Collections, DeadlineMs
from slipstream.server.search_fields import SearchFields


class SearchRequest(SearchFields):
    query: Annotated[str, Field(min_length=1, max_length=32_768)]
    limit: Annotated[int, Field(ge=1, le=100)] = 10
    rerank: bool = True
    explain: bool = False
    """Whether the response also shows every leg, the fused and the reranked order."""
    tenant: str | None = None
    collections: Collections = ()
    filters: Any = None
    """See slipstream.server.filters."""
    deadline_ms: DeadlineMs | None = None
