"""Joins to each passage found what stands before and behind it in the same version of its document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from slipstream.stores.base import Store
from slipstream.types import And, Evidence, Filter, Match, Or, Passage, Scope, ScoredSpan


@dataclass(frozen=True, slots=True)
class _Place:
    collection: str
    document_id: str
    version: str
    position: int


async def with_neighbours(items: Sequence[Evidence], around: int, store: Store, scope: Scope) -> list[Evidence]:
    """The same evidence with longer texts; one search of the store for all of them.

    Neighbours that were found themselves are not joined, so no text is shown twice. Spans still resolve: what lies
    between two passages of the document and in neither is filled with line breaks.
    """
    found = {_place(item.passage) for item in items}
    wanted = {beside for item in items for beside in _beside(item.passage, around)} - found
    if not wanted:
        return list(items)
    clauses = tuple(_clause(place) for place in sorted(wanted, key=str))
    inside: Filter = Or(clauses) if scope.filter is None else And((scope.filter, Or(clauses)))
    there: dict[_Place, Passage] = {}
    async for batch in store.scan(replace(scope, filter=inside)):
        there.update((_place(passage), passage) for passage in batch)
    taken: set[_Place] = set()
    return [_joined(item, around, there, taken) for item in items]


def _place(passage: Passage, offset: int = 0) -> _Place:
    return _Place(passage.collection, passage.document_id, passage.version, passage.position + offset)


def _beside(passage: Passage, around: int) -> list[_Place]:
    offsets = (offset for distance in range(1, around + 1) for offset in (-distance, distance))
    return [_place(passage, offset) for offset in offsets if passage.position + offset >= 0]


def _clause(place: _Place) -> Filter:
    return And(
        (
            Match("collection", (place.collection,)),
            Match("document_id", (place.document_id,)),
            Match("version", (place.version,)),
            Match("position", (place.position,)),
        )
    )


def _joined(item: Evidence, around: int, there: Mapping[_Place, Passage], taken: set[_Place]) -> Evidence:
    passage = item.passage
    before = _run(passage, range(-1, -around - 1, -1), there, taken)
    behind = _run(passage, range(1, around + 1), there, taken)
    text, start = passage.text, passage.start
    for other in before:
        text, start = _glued(other.text, other.end, text, start), other.start
    end = passage.end
    for other in behind:
        text, end = _glued(text, end, other.text, other.start), other.end
    shift = passage.start - start
    return replace(
        item,
        passage=replace(passage, text=text, start=start, end=end),
        sentence=(item.sentence[0] + shift, item.sentence[1] + shift),
        others=tuple(ScoredSpan(span.start + shift, span.end + shift, span.score) for span in item.others),
    )


def _run(passage: Passage, offsets: range, there: Mapping[_Place, Passage], taken: set[_Place]) -> list[Passage]:
    """Nearest first, up to the first that is missing or was joined to a better passage."""
    run: list[Passage] = []
    for offset in offsets:
        place = _place(passage, offset)
        if place not in there or place in taken:
            break
        taken.add(place)
        run.append(there[place])
    return run


def _glued(first: str, first_end: int, second: str, second_start: int) -> str:
    """Overlap once, a gap as line breaks."""
    gap = second_start - first_end
    return f"{first}{chr(10) * gap}{second}" if gap >= 0 else f"{first}{second[-gap:]}"
