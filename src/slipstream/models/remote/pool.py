"""The choice among replicas: equal prefixes to equal replicas within a bound of load, else the least loaded."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Sequence

from slipstream.models.remote.replica import Replica
from slipstream.types import Message

BLOCK_CHARACTERS = 256
"""What follows the system message enters the key by its first block: with it begins the first passage."""
LOAD_BOUND = 1.25
"""A replica takes at most this multiple of the mean load for the sake of its prefix cache."""


def prefix_key(messages: Sequence[Message], tenant: str = "") -> bytes | None:
    """What two prompts share that are worth sending to the same replica; None for one too short for that.

    Every prompt of a tier has the same system message, so that alone would send everything to one replica.
    `tenant` is given where prefix caches of tenants are apart.
    """
    rest = "".join([message.text for message in messages if message.role != "system"])
    if len(rest) < BLOCK_CHARACTERS:
        return None
    key = hashlib.blake2b(tenant.encode(), digest_size=16)
    for message in messages:
        if message.role == "system":
            key.update(message.text.encode())
    key.update(b"\0" + rest[:BLOCK_CHARACTERS].encode())
    return key.digest()


class Pool:
    """The replicas of one tier."""

    def __init__(self, replicas: Sequence[Replica]) -> None:
        self.replicas = tuple(replicas)

    def choose(self, key: bytes | None, tried: Collection[Replica] = ()) -> Replica | None:
        """The replica that a request should go to now; None when no other can take it.

        Rendezvous hashing (Thaler, Ravishankar 1998) gives every key an order of all replicas, the same in
        every gateway; the first within the bound (Mirrokni et al. 2017) takes it. When a replica goes, only its
        keys move.
        """
        usable = [replica for replica in self.replicas if replica not in tried and replica.available]
        if len(usable) < 2:
            return usable[0] if usable else None
        if key is None:
            return min(usable, key=lambda replica: (replica.in_flight, replica.requests))
        bound = math.ceil(LOAD_BOUND * (1 + sum(replica.in_flight for replica in usable)) / len(usable))
        ordered = sorted(usable, key=lambda replica: _weight(key, replica), reverse=True)
        return next(replica for replica in ordered if replica.in_flight < bound)

    def spare(self, tried: Collection[Replica]) -> Replica | None:
        """The least loaded of the replicas that are no busier than the mean: where a hedge harms nobody."""
        mean = sum(replica.in_flight for replica in self.replicas) / len(self.replicas)
        usable = [r for r in self.replicas if r not in tried and r.available and r.in_flight <= mean]
        return min(usable, key=lambda replica: replica.in_flight) if usable else None

    def said_free_in_s(self) -> float | None:
        """Seconds until the first replica that named a time may be asked again; None when none did."""
        named = [r.busy_for_s for r in self.replicas if r.busy_for_s and r.breaker.state != "open"]
        return min(named, default=None)

    def free_in_s(self) -> float:
        """Seconds until the first replica may be asked again, by its Retry-After or its breaker."""
        return min(max(replica.busy_for_s, replica.breaker.opens_in_s) for replica in self.replicas)


def _weight(key: bytes, replica: Replica) -> bytes:
    return hashlib.blake2b(replica.url.encode(), key=key, digest_size=8).digest()
