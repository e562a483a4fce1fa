"""What a request may say about how it is searched, in a search and in a chat's `slipstream` object alike."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from slipstream.errors import InvalidRequest
from slipstream.server.validation import Extension
from slipstream.types import USUAL_SEARCH, SearchOptions

Weight: TypeAlias = Annotated[float, Field(ge=0, le=1_000)]
Limit: TypeAlias = Annotated[int, Field(ge=1, le=1_000)]


class SearchFields(Extension):
    mode: Literal["hybrid", "dense", "sparse"] = "hybrid"
    dense_weight: Weight | None = None
    sparse_weight: Weight | None = None
    rrf_k: Annotated[int, Field(ge=1, le=1_000)] | None = None
    dense_limit: Limit | None = None
    sparse_limit: Limit | None = None
    candidates: Annotated[int, Field(ge=0, le=1_000)] | None = None
    """Fused candidates that late interaction scores; 0 leaves the fused order."""
    expand: Literal["none", "multi", "hyde", "auto"] | None = None
    per_document: Annotated[int, Field(ge=0, le=100)] | None = None
    near_duplicate: Annotated[float, Field(gt=0, le=1)] | None = None
    neighbours: Annotated[int, Field(ge=0, le=5)] | None = None


_OPTIONS = frozenset(SearchFields.model_fields) - {"candidates"}


def search_options(fields: SearchFields, within: str = "") -> SearchOptions:
    """Raises InvalidRequest for options that contradict each other; `within` is the object they came in."""
    given = _OPTIONS & fields.model_fields_set
    if not given:
        return USUAL_SEARCH
    at = f"{within}." if within else ""
    if fields.mode != "hybrid":
        other = "sparse" if fields.mode == "dense" else "dense"
        for name in (f"{other}_weight", f"{other}_limit"):
            if getattr(fields, name) is not None:
                raise InvalidRequest(
                    f'{at}{name} means nothing when {at}mode is "{fields.mode}". Leave one of the two out.',
                    param=f"{at}{name}",
                    code="invalid_value",
                )
    elif fields.dense_weight == 0 and fields.sparse_weight == 0:
        raise InvalidRequest(
            f"{at}dense_weight and {at}sparse_weight are both 0, which finds nothing. Raise one of them.",
            param=f"{at}sparse_weight",
            code="invalid_value",
        )
    return SearchOptions(**{name: getattr(fields, name) for name in given})
