"""How much a tenant may keep: checked before anything is written, counting what is being written meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from slipstream.errors import Forbidden, TooLarge
from slipstream.ingest.ledger import DocumentRecord, Ledger
from slipstream.ingest.prepare import Prepared
from slipstream.settings import TenantsSettings


@dataclass(frozen=True, slots=True)
class _Growth:
    passages: int
    documents: int


class Quota:
    """Without limits configured it looks at nothing."""

    def __init__(self, ledger: Ledger, settings: TenantsSettings) -> None:
        self._ledger = ledger
        self._settings = settings
        self._passages: Counter[str] = Counter()
        self._documents: Counter[str] = Counter()

    @asynccontextmanager
    async def hold(self, documents: Sequence[Prepared], before: Sequence[DocumentRecord | None]) -> AsyncIterator[None]:
        """Room for these versions in place of those before, kept while they are written; all are one tenant's.

        Raises TooLarge when they alone are more than the tenant may keep, Forbidden when too little room is left.
        """
        tenant = documents[0].key.tenant if documents else ""
        limits = self._settings.of(tenant)
        if not documents or not (limits.max_passages or limits.max_documents):
            yield
            return
        growth = _growth(documents, before)
        self._passages[tenant] += growth.passages
        self._documents[tenant] += growth.documents
        try:
            use = await self._ledger.use(tenant)
            whole = sum(len(document.chunks) for document in documents)
            _check(
                tenant, "passages", limits.max_passages, use.passages + self._passages[tenant], growth.passages, whole
            )
            _check(
                tenant,
                "documents",
                limits.max_documents,
                use.documents + self._documents[tenant],
                growth.documents,
                len(documents),
            )
            yield
        finally:
            self._give_back(tenant, growth)

    def _give_back(self, tenant: str, growth: _Growth) -> None:
        for held, amount in ((self._passages, growth.passages), (self._documents, growth.documents)):
            held[tenant] -= amount
            if not held[tenant]:
                del held[tenant]


def _growth(documents: Sequence[Prepared], before: Sequence[DocumentRecord | None]) -> _Growth:
    kept = [old if old is not None and old.version and old.state != "deleting" else None for old in before]
    return _Growth(
        sum(len(new.chunks) - (old.passages if old else 0) for new, old in zip(documents, kept, strict=True)),
        sum(old is None for old in kept),
    )


def _check(tenant: str, what: str, limit: int, total: int, growth: int, whole: int) -> None:
    if not limit or total <= limit or growth <= 0:
        return
    if whole > limit:
        raise TooLarge(
            f'This comes to {whole} {what}, and tenant "{tenant}" may keep {limit} in all. Split it between tenants, '
            f"or raise tenants.max_{what}.",
            code="tenant_limit",
        )
    raise Forbidden(
        f'Tenant "{tenant}" may keep {limit} {what}, and with this it would have {total}. Delete documents, '
        f"or raise tenants.max_{what}.",
        code="tenant_full",
    )
