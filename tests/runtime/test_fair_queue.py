"""The queue between tenants: fair by tokens, in order within one, flat in memory."""

from __future__ import annotations

from collections import Counter

from slipstream.runtime.fair_queue import FairQueue, Ticket


def drain(queue: FairQueue, count: int) -> list[Ticket]:
    """Starts and at once releases one ticket after the other."""
    started = []
    for _ in range(count):
        ticket = queue.next(1_000_000)
        assert ticket is not None
        queue.start(ticket)
        queue.release(ticket.tenant, ticket.tokens)
        started.append(ticket)
    return started


def test_tenants_share_by_tokens_not_by_requests() -> None:
    queue = FairQueue(1_000_000)
    for _ in range(100):
        queue.add(Ticket("large", 400))
        queue.add(Ticket("small", 100))
    tokens = Counter[str]()
    for ticket in drain(queue, 100):
        tokens[ticket.tenant] += ticket.tokens
    assert abs(tokens["large"] - tokens["small"]) <= 400


def test_first_come_first_served_within_a_tenant() -> None:
    queue = FairQueue(1_000_000)
    tickets = [Ticket("a", tokens) for tokens in (5, 900, 1, 30)]
    for ticket in tickets:
        queue.add(ticket)
    assert drain(queue, 4) == tickets
    assert len(queue) == queue.tokens == 0


def test_a_newcomer_goes_before_a_flood_but_does_not_claim_the_past() -> None:
    queue = FairQueue(1_000_000)
    for _ in range(50):
        queue.add(Ticket("flood", 100))
    drain(queue, 20)
    for _ in range(10):
        queue.add(Ticket("new", 100))
    order = [ticket.tenant for ticket in drain(queue, 20)]
    assert "new" in order[:2]
    assert order.count("new") == 10
    assert order.count("flood") == 10


def test_the_next_in_turn_is_not_overtaken_when_it_does_not_fit() -> None:
    queue = FairQueue(1_000_000)
    large, small = Ticket("a", 900), Ticket("b", 1)
    queue.add(large)
    queue.add(small)
    assert queue.next(500) is None
    assert queue.next(900) is large


def test_a_tenant_keeps_to_its_share_while_another_waits() -> None:
    queue = FairQueue(50)
    for _ in range(10):
        queue.add(Ticket("a", 25))
    blocked = Ticket("b", 90)
    queue.add(blocked)
    held = 0
    while (ticket := queue.next(80 - held)) is not None:
        queue.start(ticket)
        held += ticket.tokens
    assert held == 25, "b is next in turn and waited for"
    queue.remove(blocked)
    while (ticket := queue.next(80 - held)) is not None:
        queue.start(ticket)
        held += ticket.tokens
    assert held == 75, "alone, a may take what there is"


def test_one_ticket_larger_than_the_share_may_still_run() -> None:
    queue = FairQueue(10)
    queue.add(Ticket("a", 60))
    queue.add(Ticket("b", 60))
    first = queue.next(100)
    assert first is not None
    queue.start(first)
    assert queue.next(40) is None
    second = queue.next(60)
    assert second is not None
    assert second.tenant != first.tenant


def test_memory_is_flat_however_many_tenants_come_and_leave() -> None:
    queue = FairQueue(1_000_000)
    queue.add(Ticket("waits", 10))
    for number in range(5_000):
        ticket = Ticket(f"tenant {number}", 10)
        queue.add(ticket)
        queue.remove(ticket)
    assert len(queue) == 1
    assert len(queue._tenants) == 1
    assert len(queue._heap) < 200
