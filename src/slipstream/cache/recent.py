"""Answers that were checked against the documents as they are now: served again without looking anything up."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from slipstream.cache.keys import Key
from slipstream.types import Answer, Citation, Found

_FIXED_BYTES = 2_048


@dataclass(frozen=True, slots=True)
class Served:
    """An answer ready to send."""

    entry_id: str
    found: Found
    answer: Answer
    stored_at: float
    """When it was written; seconds since the epoch."""
    cost_s: float
    tag: str = ""


@dataclass(frozen=True, slots=True)
class _Held:
    served: Served
    epoch: int
    bytes: int


class Recent:
    """Least recently used goes first. A key serves only at the epoch it was checked at."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held: OrderedDict[Key, _Held] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._held)

    def get(self, key: Key, epoch: int | None) -> Served | None:
        held = self._held.get(key)
        if held is None:
            return None
        if epoch is None or held.epoch != epoch:
            self._drop(key)
            return None
        self._held.move_to_end(key)
        return held.served

    def put(self, key: Key, epoch: int | None, served: Served) -> None:
        """`epoch` is the one read before the search that the answer rests on."""
        if epoch is None:
            return
        self._drop(key)
        size = _bytes_of(served)
        self._held[key] = _Held(served, epoch, size)
        self.bytes += size
        while self.bytes > self._max_bytes and self._held:
            self._drop(next(iter(self._held)))

    def forget(self, tenant: str, entry_ids: frozenset[str] | None) -> int:
        """Drops a tenant's answers with these ids, or all of them; returns how many."""
        gone = [
            key
            for key, held in self._held.items()
            if key.tenant == tenant and (entry_ids is None or held.served.entry_id in entry_ids)
        ]
        for key in gone:
            self._drop(key)
        return len(gone)

    def citing(self, tenant: str, document_id: str, collection: str | None) -> frozenset[str]:
        """Ids of a tenant's answers that cite or show the document."""
        return frozenset(
            held.served.entry_id
            for key, held in self._held.items()
            if key.tenant == tenant
            and any(
                c.passage.document_id == document_id and collection in {None, c.passage.collection}
                for c in (*held.served.answer.citations, *held.served.found.citations)
            )
        )

    def tagged(self, tenant: str, tag: str) -> frozenset[str]:
        return frozenset(h.served.entry_id for k, h in self._held.items() if k.tenant == tenant and h.served.tag == tag)

    def _drop(self, key: Key) -> None:
        held = self._held.pop(key, None)
        if held is not None:
            self.bytes -= held.bytes


def _bytes_of(served: Served) -> int:
    """About: text counts at its worst width; passages are shared with nobody."""
    cited: tuple[Citation, ...] = (*served.found.citations, *served.answer.citations)
    return _FIXED_BYTES + 2 * len(served.answer.text) + sum(_FIXED_BYTES + 2 * len(c.passage.text) for c in cited)
