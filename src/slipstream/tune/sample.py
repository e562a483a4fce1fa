"""The questions an index is tuned on: asked ones, sentences of stored passages, or their vectors moved a little."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np

from slipstream.errors import DataError
from slipstream.models.base import Encoder
from slipstream.stores.index import TunableStore
from slipstream.text.sentences import sentences
from slipstream.types import IndexedPassage, Scope, Vector

_FROM_ONE_PLACE = 2
"""Passages taken from one random place of the store: neighbours by id have nothing else in common."""
_TRIES = 4
"""Random places tried for each passage wanted, before a store counts as too small."""
_BATCH = 32
PERTURBED = 0.35
"""Length of the random step away from a passage's unit vector: about what lies between a question and its passage."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One search that is measured."""

    vector: Vector
    scope: Scope


@dataclass(frozen=True, slots=True)
class Halves:
    tuning: tuple[Probe, ...]
    """What a setting is chosen on."""
    held: tuple[Probe, ...]
    """What the choice is judged by."""


def halved(probes: Sequence[Probe], seed: int) -> Halves:
    """Raises DataError when there are too few to judge anything by."""
    if len(probes) < 2:
        raise DataError("The store holds too few passages to tune an index on. Ingest documents first.")
    shuffled = list(probes)
    random.Random(seed).shuffle(shuffled)
    middle = len(shuffled) // 2
    return Halves(tuple(shuffled[:middle]), tuple(shuffled[middle:]))


async def stored_passages(store: TunableStore, count: int, seed: int) -> list[IndexedPassage]:
    """Distinct ones from all over the store: their ids are hashes, so behind a random id lies a random passage."""
    pick = random.Random(seed)
    found: dict[str, IndexedPassage] = {}
    for _ in range(count * _TRIES):
        if len(found) >= count:
            break
        async for batch in store.export(str(UUID(int=pick.getrandbits(128))), _FROM_ONE_PLACE):
            found |= {indexed.passage.id: indexed for indexed in batch[:_FROM_ONE_PLACE]}
            break
    return list(found.values())[:count]


def perturbed(passages: Sequence[IndexedPassage], seed: int, length: float = PERTURBED) -> list[Probe]:
    """Each passage's own vector, a random step of that length away from it."""
    pick = np.random.default_rng(seed)
    probes = []
    for indexed in passages:
        step = pick.standard_normal(len(indexed.encoding.dense)).astype(np.float32)
        moved = indexed.encoding.dense + step * np.float32(length / np.linalg.norm(step))
        probes.append(Probe(moved / np.linalg.norm(moved), Scope(indexed.passage.tenant)))
    return probes


async def spoken(passages: Sequence[IndexedPassage], encoder: Encoder, seed: int) -> list[Probe]:
    """A random sentence of each passage, encoded as a question."""
    pick = random.Random(seed)
    texts = [_sentence(indexed.passage.text, pick) for indexed in passages]
    return await asked(texts, [Scope(indexed.passage.tenant) for indexed in passages], encoder)


async def asked(texts: Sequence[str], scopes: Sequence[Scope], encoder: Encoder) -> list[Probe]:
    """Questions as they are."""
    probes = []
    for start in range(0, len(texts), _BATCH):
        encodings = await encoder.encode(texts[start : start + _BATCH], "query")
        probes += [Probe(e.dense, scope) for e, scope in zip(encodings, scopes[start : start + _BATCH], strict=True)]
    return probes


def _sentence(text: str, pick: random.Random) -> str:
    spans = [(start, end) for start, end in sentences(text) if text[start:end].strip()]
    if not spans:
        return text
    start, end = pick.choice(spans)
    return text[start:end]
