"""Which replica a prompt goes to: by its beginning, within a bound of load."""

from __future__ import annotations

from collections import Counter

import pytest

from slipstream.models.remote.pool import BLOCK_CHARACTERS, Pool, prefix_key
from slipstream.models.remote.replica import Replica
from slipstream.settings import RemoteEngineSettings
from slipstream.types import Message

SETTINGS = RemoteEngineSettings(base_urls=("http://unused",), max_concurrency=50)
SYSTEM = Message("system", "Answer from the passages.")


def pool(count: int) -> Pool:
    return Pool([Replica(f"http://gpu{number}:8000/v1", SETTINGS) for number in range(count)])


def key(number: int) -> bytes:
    found = prefix_key((SYSTEM, Message("user", f"passage {number} " * BLOCK_CHARACTERS)))
    assert found is not None
    return found


def labels(replicas: Pool, keys: int = 400) -> list[str]:
    chosen = [replicas.choose(key(number)) for number in range(keys)]
    return [replica.label for replica in chosen if replica is not None]


def test_keys_depend_on_the_beginning_and_not_on_the_question() -> None:
    passage = "The pool keeps ten connections open. " * 10
    first, second = (prefix_key((SYSTEM, Message("user", passage + end))) for end in ("How many?", "Why ten?"))
    assert first == second is not None
    assert prefix_key((Message("system", "Other."), Message("user", passage))) != first
    assert prefix_key((SYSTEM, Message("user", passage)), "acme") != first
    assert prefix_key((SYSTEM, Message("user", "How many?"))) is None


def test_keys_spread_and_every_gateway_agrees() -> None:
    chosen = labels(pool(4))
    assert chosen == labels(Pool(tuple(reversed(pool(4).replicas))))
    assert all(60 <= count <= 140 for count in Counter(chosen).values())


def test_when_a_replica_goes_only_its_keys_move() -> None:
    four, before = pool(4), labels(pool(4))
    four.replicas[2].breaker.failure(certain=True)
    after = labels(four)
    assert "gpu2:8000" not in after
    assert all(was == now for was, now in zip(before, after, strict=True) if was != "gpu2:8000")
    assert sum(a != b for a, b in zip(before, after, strict=True)) == before.count("gpu2:8000")


@pytest.mark.parametrize("count", [2, 3, 8])
def test_one_popular_beginning_loads_no_replica_beyond_the_bound(count: int) -> None:
    replicas = pool(count)
    for _ in range(40):
        chosen = replicas.choose(key(1))
        assert chosen is not None
        chosen.in_flight += 1
    assert max(replica.in_flight for replica in replicas.replicas) <= 1.25 * 40 / count + 1


def test_a_full_or_busy_replica_is_passed_over() -> None:
    two = pool(2)
    two.replicas[0].in_flight = 50
    assert two.choose(key(1)) is two.replicas[1]
    two.replicas[1].busy_until_s = float("inf")
    assert two.choose(key(1)) is None
    assert two.spare(()) is None
