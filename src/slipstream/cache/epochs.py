"""How often what a scope may see has changed: an answer checked at the present count needs no second check."""

from __future__ import annotations

from collections import Counter

from slipstream.types import Scope


class Epochs:
    """Counts changes of documents by tenant and collection, in this process.

    `exclusive` says that nobody else writes to the store. Where others do (several gateways over one store), every
    count is unknown and answers are checked against retrieval each time.
    """

    def __init__(self, exclusive: bool = True) -> None:
        self._exclusive = exclusive
        self._collections: Counter[tuple[str, str]] = Counter()
        self._tenants: Counter[str] = Counter()
        self._whole: Counter[str] = Counter()

    def changed(self, tenant: str, collection: str | None) -> None:
        """Call it when a change is searchable, before it is acknowledged; `collection` None means all of them."""
        self._tenants[tenant] += 1
        if collection is None:
            self._whole[tenant] += 1
        else:
            self._collections[tenant, collection] += 1

    def of(self, scope: Scope) -> int | None:
        """Grows with every change inside the scope; None when it cannot be known.

        Read it before searching: what is found is then at least as new.
        """
        if not self._exclusive:
            return None
        if not scope.collections:
            return self._tenants.get(scope.tenant, 0)
        whole = self._whole.get(scope.tenant, 0)
        return whole + sum(
            self._collections.get((scope.tenant, collection), 0) for collection in set(scope.collections)
        )
