"""Remembers cross-encoder scores by query and passage, the latest used, bounded in number."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence

_DIGEST_BYTES = 16


class ScoreCache:
    """Never stale: a passage's id is derived from its document's content, and the key holds the model's name.

    A tenant cannot meet another's entries, because a passage's id is derived from its tenant too.
    """

    def __init__(self, model: str, entries: int) -> None:
        self._model = model.encode()
        self._limit = entries
        self._scores: OrderedDict[tuple[bytes, str], float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._scores)

    def found(self, query: str, passage_ids: Sequence[str]) -> dict[str, float]:
        """The scores known, by passage id."""
        digest = self._digest(query)
        known: dict[str, float] = {}
        for passage_id in passage_ids:
            key = digest, passage_id
            score = self._scores.get(key)
            if score is not None:
                self._scores.move_to_end(key)
                known[passage_id] = score
        return known

    def keep(self, query: str, scores: Mapping[str, float]) -> None:
        digest = self._digest(query)
        for passage_id, score in scores.items():
            self._scores[digest, passage_id] = score
        while len(self._scores) > self._limit:
            self._scores.popitem(last=False)

    def _digest(self, query: str) -> bytes:
        text = self._model + b"\0" + query.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, digest_size=_DIGEST_BYTES).digest()
