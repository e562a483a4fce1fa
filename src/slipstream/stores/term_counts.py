"""How many live passages of each tenant hold each term: what idf is made of, exact through every write.

The engine can count these too, but only by walking through the whole tenant and every posting of the question's
terms at each search; kept here, a question costs a look-up a term.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from io import BytesIO

import numpy as np
from numpy.typing import NDArray

from slipstream.stores.bm25 import SparseTerms, idf

_RECENT = 1 << 15
"""Changed terms that a tenant keeps in a dictionary (100 bytes a term) before they join its arrays (8 bytes)."""


@dataclass(frozen=True, slots=True)
class TermTally:
    """In how many of some passages of one tenant each term occurs."""

    tenant: str
    passages: int
    ids: NDArray[np.uint32]
    """Distinct, ascending."""
    counts: NDArray[np.int64]


def tallied(passages: Iterable[tuple[str, Sequence[int]]]) -> list[TermTally]:
    """Tallies of (tenant, distinct term ids) pairs, one a tenant."""
    by_tenant: dict[str, list[Sequence[int]]] = defaultdict(list)
    for tenant, ids in passages:
        by_tenant[tenant].append(ids)
    return [_tally(tenant, held) for tenant, held in by_tenant.items()]


def _tally(tenant: str, held: Sequence[Sequence[int]]) -> TermTally:
    ids, counts = np.unique(np.concatenate([np.asarray(ids, np.uint32) for ids in held]), return_counts=True)
    return TermTally(tenant, len(held), ids, counts)


@dataclass(slots=True)
class _Tenant:
    """Never changed but in `recent`; replaced as a whole, so that readers on other threads see one state."""

    passages: int = 0
    ids: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, np.uint32))
    counts: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    recent: dict[int, int] = field(default_factory=dict)

    def count(self, terms: Sequence[int]) -> list[int]:
        counts = [0] * len(terms)
        if len(self.ids):
            wanted = np.asarray(terms, np.uint32)
            places = np.minimum(np.searchsorted(self.ids, wanted), len(self.ids) - 1)
            counts = np.where(self.ids[places] == wanted, self.counts[places], 0).tolist()
        recent = self.recent
        return [count + recent.get(term, 0) for term, count in zip(terms, counts, strict=True)] if recent else counts

    def settled(self) -> _Tenant:
        """The same with nothing recent."""
        ids = np.concatenate([self.ids, np.fromiter(self.recent.keys(), np.uint32, len(self.recent))])
        changes = np.concatenate([self.counts, np.fromiter(self.recent.values(), np.int64, len(self.recent))])
        distinct, places = np.unique(ids, return_inverse=True)
        counts = np.zeros(len(distinct), np.int64)
        np.add.at(counts, places, changes)
        return _Tenant(self.passages, distinct[counts > 0], counts[counts > 0])


class TermCounts:
    """One writer, many readers."""

    def __init__(self) -> None:
        self._tenants: dict[str, _Tenant] = {}

    def add(self, tallies: Iterable[TermTally]) -> None:
        for tally in tallies:
            self._change(tally, 1)

    def remove(self, tallies: Iterable[TermTally]) -> None:
        for tally in tallies:
            self._change(tally, -1)

    def forget(self, tenant: str) -> None:
        """All of its passages are gone."""
        self._tenants.pop(tenant, None)

    def weighted(self, terms: SparseTerms, tenant: str) -> SparseTerms:
        """A question's weights times the idf of its terms in the tenant; terms that no passage holds are left out."""
        known = self._tenants.get(tenant)
        if known is None:
            return SparseTerms([], [])
        counts = known.count(terms.ids)
        found = [
            (term, weight * idf(count, known.passages))
            for term, weight, count in zip(terms.ids, terms.weights, counts, strict=True)
            if count > 0
        ]
        return SparseTerms([term for term, _ in found], [weight for _, weight in found])

    def passages(self) -> int:
        return sum(tenant.passages for tenant in self._tenants.values())

    def _change(self, tally: TermTally, sign: int) -> None:
        tenant = self._tenants.setdefault(tally.tenant, _Tenant())
        tenant.passages += sign * tally.passages
        recent = tenant.recent
        for term, count in zip(tally.ids.tolist(), (sign * tally.counts).tolist(), strict=True):
            recent[term] = recent.get(term, 0) + count
        if tenant.passages <= 0:
            self.forget(tally.tenant)
        elif len(recent) > _RECENT:
            self._tenants[tally.tenant] = tenant.settled()

    # --- as bytes ---

    def packed(self) -> bytes:
        out = BytesIO()
        names = list(self._tenants)
        tenants = [self._tenants[name].settled() for name in names]
        np.savez(
            out,
            names=np.frombuffer("\0".join(names).encode("utf-8", "surrogatepass"), np.uint8),
            passages=np.array([tenant.passages for tenant in tenants], np.int64),
            terms=np.array([len(tenant.ids) for tenant in tenants], np.int64),
            ids=np.concatenate([np.empty(0, np.uint32), *(tenant.ids for tenant in tenants)]),
            counts=np.concatenate([np.empty(0, np.int64), *(tenant.counts for tenant in tenants)]),
        )
        return out.getvalue()

    @classmethod
    def unpacked(cls, data: bytes) -> TermCounts:
        """Raises BadZipFile, ValueError, KeyError, OSError or EOFError for anything else than `packed` bytes."""
        counts = cls()
        with np.load(BytesIO(data), allow_pickle=False) as stored:
            names = stored["names"].tobytes().decode("utf-8", "surrogatepass").split("\0")
            ends = np.cumsum(stored["terms"])
            ids, numbers = np.split(stored["ids"], ends), np.split(stored["counts"], ends)
            for n, passages in enumerate(stored["passages"].tolist()):
                counts._tenants[names[n]] = _Tenant(passages, ids[n], numbers[n])
        return counts
