"""Who is next: tickets weighed in tokens, first come first served within a tenant, fair between tenants."""

from __future__ import annotations

import heapq
import itertools
from collections import OrderedDict
from dataclasses import dataclass, field

COMPACT_ABOVE = 64


@dataclass(slots=True, eq=False)
class Ticket:
    """One piece of work that waits or runs."""

    tenant: str
    tokens: int


@dataclass(slots=True, eq=False)
class _Tenant:
    name: str
    served: float
    """Tokens started so far, on the virtual clock that all tenants share."""
    held: int = 0
    queued_tokens: int = 0
    waiting: OrderedDict[Ticket, None] = field(default_factory=OrderedDict)
    entry: int = -1
    """Its valid entry in the heap; older ones are skipped."""


class FairQueue:
    """The tenant that was served least, in tokens, goes next.

    Start-time fair queueing (Goyal, Vin & Cheng, SIGCOMM 1996), with the tag charged when work starts,
    so that those who leave the queue cost their tenant nothing. A tenant that comes back after a pause
    starts level with the others. The next in turn is waited for when it does not fit yet, so small
    tickets never overtake a large one for ever. A tenant may hold at most `share_tokens` while another
    waits, except that one ticket of each may always run. Operations are O(log tenants).
    """

    def __init__(self, share_tokens: float) -> None:
        self.tokens = 0
        """Tokens waiting."""
        self._share_tokens = share_tokens
        self._length = 0
        self._tenants: dict[str, _Tenant] = {}
        self._heap: list[tuple[float, int, _Tenant]] = []
        self._entries = itertools.count()
        self._virtual_time = 0.0
        self._tenants_waiting = 0

    def __len__(self) -> int:
        return self._length

    def add(self, ticket: Ticket) -> None:
        tenant = self._tenants.setdefault(ticket.tenant, _Tenant(ticket.tenant, self._virtual_time))
        tenant.waiting[ticket] = None
        tenant.queued_tokens += ticket.tokens
        self.tokens += ticket.tokens
        self._length += 1
        if len(tenant.waiting) == 1:
            self._tenants_waiting += 1
            tenant.served = max(tenant.served, self._virtual_time)
            self._push(tenant)

    def remove(self, ticket: Ticket) -> None:
        """Takes a ticket out of the queue; nothing when it is not there."""
        tenant = self._tenants.get(ticket.tenant)
        if tenant is None or ticket not in tenant.waiting:
            return
        del tenant.waiting[ticket]
        tenant.queued_tokens -= ticket.tokens
        self.tokens -= ticket.tokens
        self._length -= 1
        if not tenant.waiting:
            self._tenants_waiting -= 1
            tenant.entry = -1
            self._forget_idle(tenant)
            self._compact()

    def next(self, free_tokens: int) -> Ticket | None:
        """The ticket that may start in the free capacity; it stays queued until `start` or `remove`."""
        over_share: list[_Tenant] = []
        found = None
        while self._heap:
            _, entry, tenant = self._heap[0]
            if entry != tenant.entry:
                heapq.heappop(self._heap)
                continue
            ticket = next(iter(tenant.waiting))
            if not self._over_share(tenant, ticket):
                found = ticket if ticket.tokens <= free_tokens else None
                break
            heapq.heappop(self._heap)
            over_share.append(tenant)
        for tenant in over_share:
            self._push(tenant)
        return found

    def start_at_once(self, tenant_name: str, tokens: int) -> None:
        """What adding a ticket to the empty queue and starting it comes to."""
        tenant = self._tenants.get(tenant_name)
        if tenant is None:
            tenant = self._tenants[tenant_name] = _Tenant(tenant_name, self._virtual_time)
        self._virtual_time = max(self._virtual_time, tenant.served)
        tenant.served = self._virtual_time + tokens
        tenant.held += tokens

    def start(self, ticket: Ticket) -> None:
        """Moves a queued ticket to those held, and charges its tenant."""
        tenant = self._tenants[ticket.tenant]
        self._virtual_time = max(self._virtual_time, tenant.served)
        tenant.served += ticket.tokens
        tenant.held += ticket.tokens
        self.remove(ticket)
        if tenant.waiting:
            self._push(tenant)

    def release(self, tenant_name: str, tokens: int) -> None:
        """A tenant gives back tokens it held."""
        tenant = self._tenants.get(tenant_name)
        if tenant is not None:
            tenant.held -= tokens
            self._forget_idle(tenant)

    def ahead_of_newest(self, tenant_name: str) -> int:
        """Estimated tokens that start before, or with, the newest ticket of a tenant."""
        return min(self.tokens, self._tenants[tenant_name].queued_tokens * self._tenants_waiting)

    def displaced_by(self, tenant_name: str, excess_tokens: int) -> list[Ticket]:
        """The newest tickets of the tenant with the most tokens waiting that make up the excess.

        Empty when that would leave it with less than the tenant named has waiting. Whose queue is longest gives
        way when room runs out, so a flood never shuts the others out. Source: Suter et al., Buffer Management
        Schemes for Supporting TCP in Gigabit Routers with Per-Flow Queueing, INFOCOM 1998 (longest queue drop).
        """
        waiting = [tenant for tenant in self._tenants.values() if tenant.waiting]
        heaviest = max(waiting, key=lambda tenant: tenant.queued_tokens, default=None)
        own = self._tenants.get(tenant_name)
        if heaviest is None or heaviest is own:
            return []
        spare = heaviest.queued_tokens - (own.queued_tokens if own else 0)
        found: list[Ticket] = []
        for ticket in reversed(heaviest.waiting):
            if excess_tokens <= 0 or ticket.tokens > spare:
                break
            found.append(ticket)
            excess_tokens -= ticket.tokens
            spare -= ticket.tokens
        return found if excess_tokens <= 0 else []

    def tickets(self) -> list[Ticket]:
        return [ticket for tenant in self._tenants.values() for ticket in tenant.waiting]

    def _over_share(self, tenant: _Tenant, ticket: Ticket) -> bool:
        alone = self._tenants_waiting == 1
        return tenant.held > 0 and not alone and tenant.held + ticket.tokens > self._share_tokens

    def _push(self, tenant: _Tenant) -> None:
        tenant.entry = next(self._entries)
        heapq.heappush(self._heap, (tenant.served, tenant.entry, tenant))

    def _forget_idle(self, tenant: _Tenant) -> None:
        if not tenant.held and not tenant.waiting:
            self._tenants.pop(tenant.name, None)

    def _compact(self) -> None:
        """Memory stays flat however many tenants come and leave behind a long wait."""
        if len(self._heap) > COMPACT_ABOVE + 2 * self._tenants_waiting:
            self._heap = [item for item in self._heap if item[1] == item[2].entry]
            heapq.heapify(self._heap)
