"""The data behind the cache claims: halves that share nothing, negatives that differ, paraphrases of real questions."""

from __future__ import annotations

from collections import Counter

from slipstream.bench.cache_pairs import gptcache_pairs, negative_pairs, paraphrases, paws_pairs, shipped_pairs
from slipstream.bench.datasets import shipped
from slipstream.bench.eviction_trace import replay_all
from slipstream.bench.negatives import CHANGES, SETS, hard_negatives


def test_a_thousand_hard_negatives_half_chinese_of_every_kind() -> None:
    made = hard_negatives(1_000, 2, lambda item: item % 2 == 1)
    assert len(made) == 1_000
    assert all(negative.question != negative.changed and negative.item % 2 == 1 for negative in made)
    assert Counter(negative.language for negative in made) == {"en": 500, "zh": 500}
    kinds = Counter((negative.language, negative.change) for negative in made)
    assert min(kinds[language, change] for language in ("en", "zh") for change in CHANGES) >= 20
    assert made == hard_negatives(1_000, 2, lambda item: item % 2 == 1)


def test_paraphrases_belong_to_the_questions_they_name() -> None:
    found = paraphrases()
    assert len(found) >= 300
    assert Counter(p.language for p in found)["zh"] >= 150
    sets = {name: shipped(name) for name in SETS}
    for pair in found:
        assert sets[pair.set_name].items[pair.item].question.strip() == pair.question
        assert pair.other_words != pair.question


def test_what_is_tuned_on_is_not_reported_on() -> None:
    dev = {(pair.first, pair.second) for pair in shipped_pairs("dev")}
    held = {(pair.first, pair.second) for pair in shipped_pairs("held")}
    assert dev.isdisjoint(held)
    assert len(paws_pairs("dev")) + len(paws_pairs("held")) == len(paws_pairs()) > 1_980
    assert {pair.same for pair in negative_pairs(20, "held")} == {False}
    assert len(gptcache_pairs()) == 999


def test_weighing_cost_against_bytes_saves_more_seconds_than_recency_or_frequency() -> None:
    saved = {name: replay.saved for name, replay in replay_all().items()}
    assert saved["cost"] > max(saved["lru"], saved["lfu"]) + 0.02
