"""An exact store made tunable: its searches lose what a table says, so that choices can be foretold."""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.stores.index import IndexSpec, SearchSpec
from slipstream.stores.memory import MemoryStore
from slipstream.types import Hit, Scope, Vector


class LossyStore(MemoryStore):
    """With an ef below `finds_all_at` it misses the nearest hit; building is instant and counted."""

    def __init__(self, *, dimensions: int, finds_all_at: int) -> None:
        super().__init__(dimensions=dimensions)
        self.index = IndexSpec()
        self.search_spec = SearchSpec()
        self.built: list[IndexSpec] = []
        self._finds_all_at = finds_all_at

    def offers(self) -> Sequence[IndexSpec]:
        return (IndexSpec(m=8), IndexSpec(), IndexSpec(m=32))

    async def search_dense_with(self, vector: Vector, scope: Scope, limit: int, search: SearchSpec) -> list[Hit]:
        hits = await self.search_dense(vector, scope, limit + 1)
        needed = self._finds_all_at * 16 // self.index.m
        return hits[:limit] if search.exact or search.ef >= needed else hits[1 : limit + 1]

    async def reindex(self, index: IndexSpec) -> None:
        self.built.append(index)
        self.index = index

    async def spend(self, search: SearchSpec) -> None:
        self.search_spec = search
