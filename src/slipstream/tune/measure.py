"""What settings of an index find and cost: recall against exact search, time alone and among others, interleaved."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from slipstream.stores.index import IndexSpec, SearchSpec, TunableStore
from slipstream.tune.sample import Halves, Probe

TOP = 10
"""Recall is counted among the ten nearest."""
CONCURRENCY = 4
ROUNDS = 3
"""Every setting is timed in each, so that a busy moment of the machine meets them all."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Setting:
    index: IndexSpec
    search: SearchSpec

    def __str__(self) -> str:
        return f"{self.index}, {self.search.describe(self.index)}"


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds a search."""

    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class Measured:
    setting: Setting
    recall: float
    """On the tuning half."""
    error: float
    """Standard error of it."""
    held_recall: float
    alone: Times
    crowded: Times
    """Four at once."""


@dataclass(frozen=True, slots=True)
class Truth:
    """The ten nearest by exact search."""

    tuning: tuple[frozenset[str], ...]
    held: tuple[frozenset[str], ...]


async def exact_truth(store: TunableStore, halves: Halves) -> Truth:
    exact = SearchSpec(exact=True)

    async def nearest(probes: Sequence[Probe]) -> tuple[frozenset[str], ...]:
        return tuple([await _nearest(store, probe, exact, TOP) for probe in probes])

    return Truth(await nearest(halves.tuning), await nearest(halves.held))


def sweep(index: IndexSpec, limit: int) -> list[SearchSpec]:
    """What is worth spending on searches of an index, least first. A graph is never asked for less than the limit."""
    match index.kind:
        case "flat":
            plain = [SearchSpec()]
        case "hnsw":
            plain = [SearchSpec(ef=ef) for ef in sorted({limit, *(e for e in _EFS if e > limit)})]
        case "ivf_flat" | "ivf_pq":
            plain = [SearchSpec(nprobe=n) for n in _PROBES if n <= index.nlist]
    if index.quantization == "none" or index.kind not in {"hnsw", "flat"}:
        return plain
    return [SearchSpec(ef=spec.ef, oversampling=times, rescore=times > 0) for times in _OVERSAMPLING for spec in plain]


_EFS = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512)
_PROBES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_OVERSAMPLING = (1.0, 2.0, 4.0)


async def measured(
    store: TunableStore, halves: Halves, truth: Truth, searches: Iterable[SearchSpec], limit: int, say: Say
) -> list[Measured]:
    """The present index under each of the searches."""
    settings = [Setting(store.index, search) for search in searches]
    recalls = []
    for setting in settings:
        say(f"recall of {setting}")
        found = await _recalls(store, halves.tuning, truth.tuning, setting.search, limit)
        held = await _recalls(store, halves.held, truth.held, setting.search, limit)
        recalls.append((found, held))
    alone: dict[Setting, list[float]] = {setting: [] for setting in settings}
    crowded: dict[Setting, list[float]] = {setting: [] for setting in settings}
    everything = halves.tuning + halves.held
    for turn in range(ROUNDS):
        for setting in settings:
            say(f"time of {setting}, round {turn + 1} of {ROUNDS}")
            alone[setting] += await timed(store, everything, setting.search, limit, 1)
            crowded[setting] += await timed(store, everything, setting.search, limit, CONCURRENCY)
    return [
        Measured(setting, _mean(found), _error(found), _mean(held), _times(alone[setting]), _times(crowded[setting]))
        for setting, (found, held) in zip(settings, recalls, strict=True)
    ]


async def timed(
    store: TunableStore, probes: Sequence[Probe], search: SearchSpec, limit: int, at_once: int
) -> list[float]:
    """Milliseconds of each search, so many at once."""
    rest, took = iter(probes), list[float]()

    async def user() -> None:
        for probe in rest:
            began = time.perf_counter()
            await store.search_dense_with(probe.vector, probe.scope, limit, search)
            took.append(1e3 * (time.perf_counter() - began))

    await asyncio.gather(*(user() for _ in range(at_once)))
    return took


async def _recalls(
    store: TunableStore, probes: Sequence[Probe], truth: Sequence[frozenset[str]], search: SearchSpec, limit: int
) -> list[float]:
    found = [await _nearest(store, probe, search, limit) for probe in probes]
    return [len(f & t) / len(t) for f, t in zip(found, truth, strict=True) if t]


async def _nearest(store: TunableStore, probe: Probe, search: SearchSpec, limit: int) -> frozenset[str]:
    hits = await store.search_dense_with(probe.vector, probe.scope, limit, search)
    return frozenset(hit.passage_id for hit in hits[:TOP])


def _times(took: Sequence[float]) -> Times:
    ordered = sorted(took)
    return Times(ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 1.0


def _error(values: Sequence[float]) -> float:
    """Standard error of the mean."""
    mean = _mean(values)
    variance = sum((value - mean) ** 2 for value in values) / max(1, len(values) - 1)
    return float((variance / max(1, len(values))) ** 0.5)
