"""An estimate of which prompt blocks the engine's prefix cache holds, since the engine does not tell."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray


class PrefixLedger:
    """Block chains that were computed, least recently used first out; as many as the engine has blocks.

    The engine reuses whole KV blocks whose tokens, and all tokens before them, are equal. This keeps the same
    books beside it, so it can be off where the engine evicts in another order.
    """

    def __init__(self, capacity_blocks: int, block_tokens: int) -> None:
        self._capacity = capacity_blocks
        self._block = block_tokens
        self._chains: OrderedDict[int, None] = OrderedDict()

    def cached_tokens(self, ids: NDArray[np.int64]) -> int:
        """Leading tokens of `ids` that need no computing; the last token always does."""
        blocks = 0
        for chain in self._links(ids):
            if chain not in self._chains:
                break
            self._chains.move_to_end(chain)
            blocks += 1
        return max(0, min(blocks * self._block, len(ids) - 1))

    def computed(self, ids: NDArray[np.int64]) -> None:
        """Notes that the KV of `ids` now exists."""
        for chain in self._links(ids):
            self._chains[chain] = None
            self._chains.move_to_end(chain)
        while len(self._chains) > self._capacity:
            self._chains.popitem(last=False)

    def _links(self, ids: NDArray[np.int64]) -> Iterator[int]:
        chain = 0
        for end in range(self._block, len(ids) + 1, self._block):
            chain = hash((chain, ids[end - self._block : end].tobytes()))
            yield chain
