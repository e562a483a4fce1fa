"""Tuning an index: measure what the store offers, choose, and on request make it the store's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slipstream.stores.index import IndexSpec, TunableStore
from slipstream.tune.choose import Choice, choose
from slipstream.tune.measure import Measured, Say, exact_truth, measured, sweep
from slipstream.tune.sample import Halves


@dataclass(frozen=True, slots=True)
class Aim:
    target_recall: float
    limit: int
    """How many hits the product's searches ask for: what is timed."""
    max_ms: float | None = None
    """Of the 99th percentile, four searches at once."""
    build: bool = False
    """Also the other indexes that the store offers, one after another."""
    apply: bool = False


@dataclass(frozen=True, slots=True)
class Tuned:
    measured: tuple[Measured, ...]
    choice: Choice
    applied: bool


async def tune(store: TunableStore, halves: Halves, aim: Aim, say: Say) -> Tuned:
    """Leaves the store with the index it had, unless the choice reaches its aim and is to be applied.

    Raises what the store raises when an index cannot be built; the index there was then goes on.
    """
    before = store.index
    say("exact search, for the truth")
    truth = await exact_truth(store, halves)
    found: list[Measured] = []
    try:
        for index in _indexes(store) if aim.build else (before,):
            if index != store.index:
                say(f"building {index}")
                await store.reindex(index)
            found += await measured(store, halves, truth, sweep(index, aim.limit), aim.limit, say)
        choice = choose(found, aim.target_recall, aim.max_ms)
        applied = aim.apply and choice.reaches
        after = choice.best.setting.index if applied else before
    except BaseException:
        await _return_to(store, before, say)
        raise
    await _return_to(store, after, say)
    if applied:
        await store.spend(choice.best.setting.search)
    return Tuned(tuple(found), choice, applied)


async def _return_to(store: TunableStore, index: IndexSpec, say: Say) -> None:
    if store.index != index:
        say(f"building {index}")
        await store.reindex(index)


def _indexes(store: TunableStore) -> Sequence[IndexSpec]:
    """The present one first: it costs nothing."""
    return (store.index, *(index for index in store.offers() if index != store.index))
