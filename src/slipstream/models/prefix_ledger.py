"""An estimate of which prompt blocks the engine's prefix cache holds, since the engine does not tell."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

SHARED = ""
"""The tenant of what the server computes for everybody, such as the system prompt at warm-up."""


class PrefixLedger:
    """Block chains that were computed, least recently used first out; as many as the engine has blocks.

    The engine reuses whole KV blocks whose tokens, and all tokens before them, are equal. This keeps the same
    books beside it, so it can be off where the engine evicts in another order. And it keeps them per tenant: the
    figure is shown to the caller, who must not learn from it what another tenant asked or was answered.
    """

    def __init__(self, capacity_blocks: int, block_tokens: int) -> None:
        self._capacity = capacity_blocks
        self._block = block_tokens
        self._chains: OrderedDict[int, None] = OrderedDict()

    def cached_tokens(self, ids: NDArray[np.int64], tenant: str) -> int:
        """Leading tokens of `ids` that this tenant's requests or the server itself computed; never the last token."""
        blocks = max(self._known_blocks(ids, tenant), self._known_blocks(ids, SHARED))
        return max(0, min(blocks * self._block, len(ids) - 1))

    def computed(self, ids: NDArray[np.int64], tenant: str) -> None:
        """Notes that the KV of `ids` now exists."""
        for chain in self._links(ids, tenant):
            self._chains[chain] = None
            self._chains.move_to_end(chain)
        while len(self._chains) > self._capacity:
            self._chains.popitem(last=False)

    def _known_blocks(self, ids: NDArray[np.int64], tenant: str) -> int:
        blocks = 0
        for chain in self._links(ids, tenant):
            if chain not in self._chains:
                break
            self._chains.move_to_end(chain)
            blocks += 1
        return blocks

    def _links(self, ids: NDArray[np.int64], tenant: str) -> Iterator[int]:
        chain = hash(tenant)
        for end in range(self._block, len(ids) + 1, self._block):
            chain = hash((chain, ids[end - self._block : end].tobytes()))
            yield chain
