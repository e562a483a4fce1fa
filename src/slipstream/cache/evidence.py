"""Whether the documents, as they are now, still lead a question to what a stored answer was written from."""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.cache.entry import Entry
from slipstream.types import Evidence, Verdict

_CHECK = "evidence"


def still_rests(entry: Entry, found: Sequence[Evidence], *, same_words: bool) -> Verdict:
    """The new question's own retrieval must bring every passage cited, in the same version, ranked as well, with
    nothing new above it; for other words than the stored ones also the same best passage and the same best sentence.

    `found`: best first. An edited document's passages have new ids, so an edit, a deletion and a better passage all
    fail here by themselves. An answer that cites nothing rests on there being nothing.
    """
    now = [item.passage.id for item in found]
    before = [seen.passage_id for seen in entry.seen]
    if not entry.cited:
        return _nothing(now)
    for cited in entry.cited:
        if cited.passage_id not in now:
            return _failed(f"[{cited.index}] {cited.document_id} is not found any more: changed, deleted or outranked")
        rank, earlier = now.index(cited.passage_id), _rank(before, cited.passage_id)
        if any(passage not in before for passage in now[:rank]):
            return _failed(f"a passage that was not there ranks above [{cited.index}]")
        if rank > earlier:
            return _failed(f"[{cited.index}] ranks {rank + 1}, it ranked {earlier + 1}")
    if not same_words:
        if now[0] != before[0]:
            return _failed("another passage answers best")
        if found[0].sentence != entry.seen[0].sentence:
            return _failed("another sentence answers best")
    return Verdict(_CHECK, passed=True, detail=f"{len(entry.cited)} cited, all found again")


def _rank(ids: Sequence[str], passage_id: str) -> int:
    return ids.index(passage_id) if passage_id in ids else len(ids)


def _nothing(now: Sequence[str]) -> Verdict:
    if now:
        return _failed("there is something to answer from now")
    return Verdict(_CHECK, passed=True, detail="there is still nothing")


def _failed(detail: str) -> Verdict:
    return Verdict(_CHECK, passed=False, detail=detail)
