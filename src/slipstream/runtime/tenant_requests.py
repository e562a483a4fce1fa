"""How often each tenant asked for what since the start; bounded in tenants, not in requests."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

MOST_TENANTS = 10_000


class TenantRequests:
    """Counts by tenant and kind; those who asked longest ago are forgotten first."""

    def __init__(self, most_tenants: int = MOST_TENANTS) -> None:
        self._most = most_tenants
        self._counts: OrderedDict[str, dict[str, int]] = OrderedDict()

    def count(self, tenant: str, kind: str) -> None:
        counts = self._counts.get(tenant)
        if counts is None:
            counts = self._counts[tenant] = {}
            if len(self._counts) > self._most:
                self._counts.popitem(last=False)
        else:
            self._counts.move_to_end(tenant)
        counts[kind] = counts.get(kind, 0) + 1

    def of(self, tenant: str) -> Mapping[str, int]:
        """By kind: answer, search, embed, ingest…"""
        return dict(self._counts.get(tenant, {}))

    def forget(self, tenant: str) -> None:
        self._counts.pop(tenant, None)
