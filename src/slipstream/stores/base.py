"""Protocol of the place where passages live. Every adapter passes tests/contracts/store_contract.py."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from slipstream.types import Hit, IndexedPassage, Matrix, Passage, Scope, TokenVectors, Vector


@dataclass(frozen=True, slots=True)
class StoreInfo:
    passages: int
    indexed: int
    """Passages whose dense vectors are in a graph; the others are scanned exactly."""
    segments: int
    bytes_on_disk: int
    stale: bool = False
    """Whether another index is wanted than the one there is: `optimize` builds it."""


class Store(Protocol):
    """Dense, sparse and late-interaction search over passages, inside a Scope.

    Every search takes a scope and returns nothing from outside it. `upsert` and `delete` have
    survived a kill -9 once they return, and are seen by the searches that start afterwards.
    Blocking engines run on their own workers; every method is safe to call concurrently.
    Raises Unavailable when the store cannot be reached, ConfigError when its directory is held
    by another process, DataError when what is stored does not match the settings.
    """

    dimensions: int

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def upsert(self, passages: Sequence[IndexedPassage]) -> None:
        """Writes passages; an id already there is replaced. Durable on return."""
        ...

    async def delete_document(
        self, tenant: str, collection: str, document_id: str, *, except_version: str | None = None
    ) -> None:
        """Deletes a document's passages, or all but those of one version. Durable on return."""
        ...

    async def delete_scope(self, scope: Scope) -> None:
        """Deletes everything in a scope. Durable on return."""
        ...

    async def search_dense(self, vector: Vector, scope: Scope, limit: int) -> list[Hit]:
        """Cosine similarity, best first."""
        ...

    async def search_sparse(self, text: str, scope: Scope, limit: int) -> list[Hit]:
        """BM25 over Chinese and English terms (slipstream.text.terms), best first; only real matches."""
        ...

    async def score_tokens(self, tokens: Matrix, passage_ids: Sequence[str], scope: Scope) -> list[Hit]:
        """MaxSim of the query's token vectors against each passage named, best first.

        Score = sum over query tokens of the best cosine in the passage. Ids that are gone are left out.
        Source: Khattab & Zaharia, ColBERT, SIGIR 2020, eq. 3.
        """
        ...

    async def fetch(self, passage_ids: Sequence[str], scope: Scope) -> list[Passage]:
        """The passages named, in the order named; those gone or outside the scope are left out."""
        ...

    async def fetch_tokens(self, passage_ids: Sequence[str], scope: Scope) -> dict[str, TokenVectors]:
        """Token vectors with their character spans, by passage id."""
        ...

    async def count(self, scope: Scope) -> int: ...

    def scan(self, scope: Scope, batch: int = 256) -> AsyncIterator[list[Passage]]:
        """Every passage of a scope in batches, in no particular order."""
        ...

    def export(self, after_id: str | None = None, batch: int = 256) -> AsyncIterator[list[IndexedPassage]]:
        """Everything stored, of all tenants, whole, in ascending order of id: what a copy of the store needs.

        Begins behind `after_id`. Dense vectors are normalised, token vectors what the store's compression gives
        back. Passages written or deleted meanwhile may be seen or not; each of the others is seen exactly once.
        """
        ...

    async def optimize(self) -> None:
        """Builds or merges indexes off the path; searches and writes go on meanwhile."""
        ...

    async def info(self) -> StoreInfo: ...

    def healthy(self) -> bool: ...
