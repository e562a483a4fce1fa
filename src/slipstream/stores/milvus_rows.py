"""Passage ↔ row of a Milvus collection; filters name these fields."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from slipstream.errors import DataError
from slipstream.stores import bm25
from slipstream.stores.milvus_filters import NO_PAGE, TRUTHS
from slipstream.types import IndexedPassage, Passage

TEXT_BYTES = 65_535
"""Longest text a Milvus field takes, in UTF-8."""
TEXT_FIELDS = {
    "collection": 512,
    "document_id": 1_024,
    "version": 256,
    "type": 64,
    "language": 16,
    "title": 4_096,
    "source": 8_192,
    "headings": TEXT_BYTES,
    "text": TEXT_BYTES,
}
"""With the bytes they may hold. Headings are a JSON list."""
TENANT_BYTES = 512
INT_FIELDS = ("position", "page", "start", "end", "token_rows")
PASSAGE_FIELDS = ["id", "tenant", *TEXT_FIELDS, *INT_FIELDS, "time", "metadata", TRUTHS]
MAX_TERMS = 4_096
"""An array field holds no more; what a longer passage leaves out counts for idf alone."""
_LAST_KEY = 2**32 - 3
_NO_TERMS = {_LAST_KEY + 1: 1e-6}
"""Some servers take no empty sparse vector; nothing asks for this one's key."""


def term_key(term: int) -> int:
    """A term as a key of a sparse vector: those end two before 2³²."""
    return min(term, _LAST_KEY)


def row_of(indexed: IndexedPassage, *, sparse: bool) -> dict[str, Any]:
    """Raises DataError for what does not fit into Milvus's fields."""
    passage = indexed.passage
    row: dict[str, Any] = {
        "id": passage.id,
        "tenant": passage.tenant,
        **{name: getattr(passage, name) for name in TEXT_FIELDS if name != "headings"},
        "headings": json.dumps(passage.headings, ensure_ascii=False),
        "position": passage.position,
        "page": NO_PAGE if passage.page is None else passage.page,
        "start": passage.start,
        "end": passage.end,
        "token_rows": len(indexed.encoding.tokens),
        "time": float(passage.time),
        "metadata": {key: value for key, value in passage.metadata.items() if not isinstance(value, bool)},
        TRUTHS: {key: value for key, value in passage.metadata.items() if isinstance(value, bool)},
        "dense": np.ascontiguousarray(indexed.encoding.dense, np.float32),
    }
    _check(row, passage)
    if sparse:
        terms = bm25.passage_terms(passage.text)
        row["sparse"] = dict(zip(map(term_key, terms.ids), terms.weights, strict=True)) or _NO_TERMS
        row["terms"] = [term_key(term) for term in terms.ids[:MAX_TERMS]]
    return row


def passage_of(row: Mapping[str, Any]) -> Passage:
    return Passage(
        id=row["id"],
        tenant=row["tenant"],
        collection=row["collection"],
        document_id=row["document_id"],
        version=row["version"],
        position=row["position"],
        text=row["text"],
        start=row["start"],
        end=row["end"],
        title=row["title"],
        source=row["source"],
        headings=tuple(json.loads(row["headings"])),
        type=row["type"],
        time=row["time"],
        language=row["language"],
        page=None if row["page"] == NO_PAGE else row["page"],
        metadata={**row["metadata"], **row[TRUTHS]},
    )


def _check(row: Mapping[str, Any], passage: Passage) -> None:
    where = f"Passage {passage.position} of {passage.document_id!r} cannot be kept by Milvus"
    try:
        sizes = {name: len(row[name].encode()) for name in TEXT_FIELDS} | {"tenant": len(passage.tenant.encode())}
        metadata_bytes = len(json.dumps(dict(passage.metadata), ensure_ascii=False).encode())
    except UnicodeEncodeError:
        raise DataError(f"{where}: one of its fields holds half of a surrogate pair.") from None
    for name, limit in {**TEXT_FIELDS, "tenant": TENANT_BYTES}.items():
        if sizes[name] > limit:
            raise DataError(f"{where}: its {name} has {sizes[name]:,} bytes, and a field holds {limit:,}.")
    if metadata_bytes > TEXT_BYTES:
        raise DataError(f"{where}: its metadata has {metadata_bytes:,} bytes, and a field holds {TEXT_BYTES:,}.")
    for value in row["metadata"].values():
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise DataError(f"{where}: its metadata holds {value}, and whole numbers have 64 bits there.")
