"""Keys, epochs, what is held ready, the codec, vectors, eviction."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cache.stored import DIMENSIONS, entry, vector

from slipstream.cache import vectors as vectors_module
from slipstream.cache.codec import decode_entry, encode_entry, token_codes, token_vectors
from slipstream.cache.epochs import Epochs
from slipstream.cache.eviction import cost_per_byte, least_frequent, least_recent
from slipstream.cache.keys import Key, key_of
from slipstream.cache.recent import Recent, Served
from slipstream.cache.vectors import ScopeVectors, graph_of
from slipstream.errors import DataError
from slipstream.types import (
    Answer,
    Encoding,
    Found,
    Match,
    Query,
    Question,
    Sampling,
    Scope,
    Turn,
    Usage,
)

QUESTION = Question("How long is leave?", Scope("acme", ("a", "b")))
QUERY = Query("How long is leave?", "en")


def test_what_only_differs_in_order_or_ending_has_one_key() -> None:
    key = key_of(QUESTION, QUERY, "house")
    assert key == key_of(replace(QUESTION, scope=Scope("acme", ("b", "a", "a"))), QUERY, "house")
    assert key == key_of(replace(QUESTION, cache="refresh", cache_max_age_s=3, cache_tag="x"), QUERY, "house")
    assert key == key_of(QUESTION, Query("How long is leave", "en"), "house")


@pytest.mark.parametrize(
    "changed",
    [
        {"scope": Scope("other", ("a", "b"))},
        {"scope": Scope("acme", ("a",))},
        {"scope": Scope("acme", ("a", "b"), Match("type", ("pdf",)))},
        {"history": (Turn("user", "Hello"),)},
        {"instructions": "Answer in one word."},
        {"sampling": Sampling(max_tokens=5)},
        {"sampling": Sampling(temperature=0.1)},
        {"sampling": Sampling(json_schema="{}")},
        {"route": "large"},
        {"passages": 7},
        {"candidates": 0},
    ],
)
def test_whatever_changes_an_answer_changes_its_scope(changed: dict[str, Any]) -> None:
    assert key_of(replace(QUESTION, **changed), QUERY, "house").scope != key_of(QUESTION, QUERY, "house").scope


def test_models_prompts_and_language_are_part_of_the_scope() -> None:
    scope = key_of(QUESTION, QUERY, "house").scope
    assert key_of(QUESTION, QUERY, "other house").scope != scope
    assert key_of(QUESTION, Query("How long is leave?", "zh"), "house").scope != scope


def test_an_epoch_changes_with_what_a_scope_may_see_and_with_nothing_else() -> None:
    epochs = Epochs()
    scopes = [Scope("acme"), Scope("acme", ("a",)), Scope("acme", ("a", "b")), Scope("acme", ("c",)), Scope("other")]
    before = [epochs.of(scope) for scope in scopes]
    epochs.changed("acme", "a")
    assert [epochs.of(s) != b for s, b in zip(scopes, before, strict=True)] == [True, True, True, False, False]
    before = [epochs.of(scope) for scope in scopes]
    epochs.changed("acme", None)
    assert [epochs.of(s) != b for s, b in zip(scopes, before, strict=True)] == [True, True, True, True, False]
    assert Epochs(exclusive=False).of(Scope("acme")) is None


def served(entry_id: str, size: int = 10) -> Served:
    answer = Answer("x" * size, (), "stop", Usage(), "small", "fake", supported=True)
    return Served(entry_id, Found(QUERY, ()), answer, 0.0, 1.0, "tag" if entry_id == "b" else "")


def test_what_is_held_serves_at_its_epoch_only_and_within_bytes() -> None:
    recent = Recent(10_000)
    key = Key("acme", "s", "q")
    recent.put(key, 3, served("a"))
    assert recent.get(key, 3) is not None
    assert recent.get(key, 4) is None
    assert recent.get(key, 3) is None
    recent.put(key, None, served("a"))
    assert len(recent) == 0
    for number in range(50):
        recent.put(Key("acme", "s", str(number)), 1, served(str(number), 500))
    assert 0 < recent.bytes <= 10_000
    assert recent.get(Key("acme", "s", "49"), 1) is not None
    assert recent.get(Key("acme", "s", "0"), 1) is None


def test_what_is_held_is_forgotten_by_tenant_and_id() -> None:
    recent = Recent(100_000)
    for tenant in ("acme", "other"):
        for name in ("a", "b"):
            recent.put(Key(tenant, tenant, name), 1, served(name))
    assert recent.tagged("acme", "tag") == {"b"}
    assert recent.forget("acme", frozenset({"b"})) == 1
    assert recent.forget("acme", None) == 1
    assert len(recent) == 2
    assert recent.bytes > 0
    recent.forget("other", None)
    assert recent.bytes == 0


def test_an_entry_comes_back_from_its_bytes() -> None:
    stored = entry(1, tag="春天", text="为什么？")
    back = decode_entry(encode_entry(stored))
    assert replace(back, vector=stored.vector, tokens=stored.tokens) == replace(stored)
    assert float(back.vector @ stored.vector) > 0.999
    for broken in (b"", b"\x01", b"\xff" * 50, encode_entry(stored)[:-40]):
        with pytest.raises(DataError, match="stored answer"):
            decode_entry(broken)


def test_token_vectors_survive_one_byte_a_dimension() -> None:
    rows = np.random.default_rng(1).standard_normal((9, 384)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    back = token_vectors(token_codes(Encoding(rows[0], rows, np.zeros((9, 2), np.int32))))
    assert float((rows * back).sum(axis=1).min()) > 0.999


@pytest.mark.parametrize("above", [10_000, 50])
def test_neighbours_are_those_of_brute_force(above: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors_module, "GRAPH_ABOVE", above)
    index = ScopeVectors(DIMENSIONS)
    made = {f"v{number}": vector(number) for number in range(400)}
    for name, row in made.items():
        index.add(name, row)
    if index.crowded:
        snapshot = index.snapshot()
        index.remove("v399")
        index.add("late", vector(399))
        index.adopt(graph_of(*snapshot))
        index.remove("late")
        index.add("v399", made["v399"])
    for number in range(0, 400, 3):
        index.remove(f"v{number}")
        del made[f"v{number}"]
    index.remove("never there")
    assert len(index) == len(made)
    assert set(index.ids()) == set(made)
    right = 0
    for number in range(1, 400, 3):
        asked = vector(1_000 + number, near=made[f"v{number}"])
        best = max(made, key=lambda name: float(made[name] @ asked))
        found = index.nearest(asked, 5)
        right += found[0].entry_id == best
        assert found[0].similarity == pytest.approx(float(made[found[0].entry_id] @ asked), abs=2e-3)
    assert right >= 131


def test_priorities_weigh_what_they_say() -> None:
    dear = cost_per_byte(hits=0, cost_s=9, size_bytes=1024, floor=0, now=0)
    assert dear > cost_per_byte(hits=0, cost_s=9, size_bytes=4096, floor=0, now=0)
    assert cost_per_byte(hits=3, cost_s=1, size_bytes=1024, floor=0, now=0) == 4
    assert cost_per_byte(hits=0, cost_s=1, size_bytes=1024, floor=8.5, now=0) > dear
    assert least_recent(hits=9, cost_s=9, size_bytes=1, floor=0, now=5) == 5
    assert least_frequent(hits=2, cost_s=0, size_bytes=1, floor=0, now=1e6) < 3
