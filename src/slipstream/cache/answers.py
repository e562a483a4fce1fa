"""The answer cache: looks up, verifies, keeps and purges; a part that is down makes misses, never errors."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from slipstream.cache.codec import token_codes
from slipstream.cache.entries import Entries
from slipstream.cache.entry import Cited, EntriesInfo, Entry, Feedback, Purge, Seen
from slipstream.cache.epochs import Epochs
from slipstream.cache.keys import Key
from slipstream.cache.recent import Recent, Served
from slipstream.cache.verify import Asked, Judgement, Verifier
from slipstream.errors import DataError, NotFound, Unavailable
from slipstream.observe.cache_metrics import CacheMetrics
from slipstream.settings import CacheSettings
from slipstream.types import (
    Answer,
    CacheDecision,
    CacheLevel,
    Encoding,
    Evidence,
    Found,
    Language,
    Question,
    Usage,
    Verdict,
)

log = logging.getLogger(__name__)

_WAITING = 1_024
"""Writes that may wait; beyond it answers are not stored."""
_REMEMBERED = 16_384
"""Requests whose stored answer feedback can still find."""


@dataclass(frozen=True, slots=True)
class Near:
    """Stored answers that may serve a question, before they are verified."""

    same: Entry | None = None
    """To the same words."""
    others: Sequence[Entry] = ()
    failure: str = ""
    """Why nothing could be looked up."""


@dataclass(frozen=True, slots=True)
class Hit:
    entry: Entry
    level: CacheLevel
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True)
class Miss:
    verdicts: tuple[Verdict, ...] = ()


class AnswerCache:
    """Looks up on the path, writes beside it: `run` is the task that writes."""

    def __init__(
        self,
        entries: Entries,
        verifier: Verifier,
        epochs: Epochs,
        settings: CacheSettings,
        metrics: CacheMetrics,
        house: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`house` is a digest of the models, prompts and settings that answers depend on."""
        self.settings = settings
        self.epochs = epochs
        self.metrics = metrics
        self.verifier = verifier
        self.house = house
        self.recent = Recent(settings.recent_mib << 20)
        self._entries = entries
        self._clock = clock
        self._writes: asyncio.Queue[Entry | str] = asyncio.Queue(_WAITING)
        self._purges: Counter[str] = Counter()
        self._answered: OrderedDict[tuple[str, str], str] = OrderedDict()
        metrics.watch(lambda: self.recent.bytes, lambda: len(self.recent))

    async def open(self) -> None:
        await self._entries.open()

    async def close(self) -> None:
        """Writes what waits, then closes."""
        while not self._writes.empty():
            await self._write(self._writes.get_nowait())
        await self._entries.close()

    # --- looking up ---

    def ready(self, key: Key, epoch: int | None, question: Question) -> Served | None:
        """An answer that was checked against the documents as they are; costs a microsecond."""
        served = self.recent.get(key, epoch)
        return served if served is not None and self._young(served.stored_at, question) else None

    async def near(self, key: Key, encoding: Encoding) -> Near:
        """What is stored for the same words and for words near to them. Never raises for a part that is down."""
        try:
            same = await self._entries.exact(key.scope, key.text)
            if not self.settings.semantic:
                return Near(same)
            found = await self._entries.nearest(key.scope, encoding.dense, self.settings.candidates)
            wanted = [n.entry_id for n in found if n.similarity >= self.settings.min_similarity]
            others = await self._entries.get([entry_id for entry_id in wanted if same is None or entry_id != same.id])
        except (Unavailable, DataError) as error:
            self.metrics.failed("lookup")
            return Near(failure=error.message)
        return Near(same, others)

    def decide(
        self,
        near: Near,
        key: Key,
        language: Language,
        encoding: Encoding,
        found: Sequence[Evidence],
        question: Question,
    ) -> Hit | Miss:
        """The first stored answer that every check lets pass."""
        refused: list[Verdict] = []
        if near.failure:
            refused.append(Verdict("store", passed=False, detail=near.failure))
        asked = Asked(key.text, language, encoding, found)
        for entry in (*((near.same,) if near.same is not None else ()), *near.others):
            if not self._young(entry.stored_at, question):
                refused.append(Verdict("age", passed=False, detail="older than asked for"))
                continue
            is_same = entry is near.same
            judgement = self._judged(entry, asked, is_same)
            if judgement.passed:
                return Hit(entry, "exact" if is_same else "semantic", judgement.verdicts)
            refused += judgement.verdicts
        return Miss(tuple(refused))

    def _judged(self, entry: Entry, asked: Asked, is_same: bool) -> Judgement:
        if is_same:
            return self.verifier.same_words(entry, asked.found)
        return self.verifier.other_words(entry, asked)

    def _young(self, stored_at: float, question: Question) -> bool:
        oldest_s = self.settings.max_age_s if question.cache_max_age_s is None else question.cache_max_age_s
        return self.age_s(stored_at) <= min(oldest_s, self.settings.max_age_s)

    def age_s(self, stored_at: float) -> float:
        return max(0.0, self._clock() - stored_at)

    # --- keeping ---

    def draft(self, key: Key, language: Language, encoding: Encoding, found: Sequence[Evidence], tag: str) -> Entry:
        """An entry for an answer that is not written yet; it rests on the best passage until it says otherwise."""
        seen = tuple(Seen(item.passage.id, item.sentence, item.score) for item in found)
        first = found[0].passage if found else None
        return Entry(
            id=uuid.uuid4().hex,
            tenant=key.tenant,
            scope=key.scope,
            text=key.text,
            language=language,
            vector=encoding.dense,
            tokens=token_codes(encoding),
            seen=seen,
            answer="",
            cited=(Cited(1, first.id, first.document_id, first.collection),) if first is not None else (),
            finish_reason="stop",
            usage=Usage(),
            tier="small",
            model="",
            supported=False,
            cost_s=0.0,
            stored_at=self._clock(),
            tag=tag,
        )

    def purges(self, tenant: str) -> int:
        """Read it before writing an answer: one that a purge has overtaken is not kept."""
        return self._purges[tenant]

    def keep(
        self, draft: Entry, key: Key, epoch: int | None, purges: int, found: Found, answer: Answer, cost_s: float
    ) -> str:
        """Keeps an answer; returns its id, empty when it was not kept.

        One that cites nothing, such as "not in the documents", holds until the next change in its scope only.
        """
        if purges != self._purges[key.tenant]:
            return ""
        entry = replace(
            draft,
            answer=answer.text,
            cited=tuple(
                Cited(c.index, c.passage.id, c.passage.document_id, c.passage.collection) for c in answer.citations
            ),
            finish_reason=answer.finish_reason,
            usage=answer.usage,
            tier=answer.tier,
            model=answer.model,
            supported=answer.supported,
            cost_s=cost_s,
            stored_at=self._clock(),
        )
        self.recent.put(key, epoch, Served(entry.id, found, answer, entry.stored_at, cost_s, entry.tag))
        if entry.cited and cost_s * 1000 >= self.settings.min_cost_ms:
            self._later(entry)
        return entry.id

    def serve(self, hit: Hit, key: Key, epoch: int | None, found: Found, answer: Answer) -> None:
        """Notes a hit; these words then need no second check until the documents change."""
        entry = hit.entry
        self.recent.put(key, epoch, Served(entry.id, found, answer, entry.stored_at, entry.cost_s, entry.tag))
        self._later(entry.id)

    def answered(self, request_id: str, tenant: str, decision: CacheDecision) -> None:
        """Remembers which answer a request was given."""
        if decision.entry:
            self._answered[tenant, request_id] = decision.entry
            if len(self._answered) > _REMEMBERED:
                self._answered.popitem(last=False)

    def _later(self, write: Entry | str) -> None:
        try:
            self._writes.put_nowait(write)
        except asyncio.QueueFull:
            self.metrics.failed("queue")

    async def run(self) -> None:
        """Writes entries and hits, one after the other."""
        while True:
            write = await self._writes.get()
            try:
                await self._write(write)
            finally:
                self._writes.task_done()

    async def _write(self, write: Entry | str) -> None:
        try:
            if isinstance(write, str):
                await self._entries.hit(write)
            else:
                await self._entries.put(write)
        except (Unavailable, DataError) as error:
            self.metrics.failed("store")
            log.debug("The answer cache did not take a write: %s", error)

    async def written(self) -> None:
        """Returns when everything kept so far is stored; `run` must be running."""
        await self._writes.join()

    # --- for people ---

    async def purge(self, tenant: str, which: Purge) -> int:
        """Drops a tenant's answers, those being written included; returns how many were stored.

        Raises Unavailable when the store cannot be reached: what is held ready is gone all the same.
        """
        self._purges[tenant] += 1
        held = self._held(tenant, which)
        ready = self.recent.forget(tenant, held)
        await self.written()
        return max(await self._entries.purge(tenant, which), ready)

    def _held(self, tenant: str, which: Purge) -> frozenset[str] | None:
        if which.entry_id is not None:
            return frozenset({which.entry_id})
        if which.document_id is not None:
            return self.recent.citing(tenant, which.document_id, which.collection)
        return self.recent.tagged(tenant, which.tag) if which.tag is not None else None

    async def feedback(self, tenant: str, request_id: str, rating: str, comment: str) -> bool:
        """Records what a reader said; a bad answer is dropped. True when it was dropped.

        Raises NotFound for a request that was not answered here lately.
        """
        entry_id = self._answered.get((tenant, request_id))
        if entry_id is None:
            raise NotFound(
                f'No answer to "{request_id}" is remembered. Send the id of a recent completion of this tenant.',
                code="answer_not_found",
            )
        self.metrics.said(rating)
        await self.written()
        await self._entries.record(Feedback(tenant, request_id, entry_id, rating, comment, self._clock()))
        return rating == "bad" and await self.purge(tenant, Purge(entry_id=entry_id)) > 0

    async def info(self, tenant: str | None) -> EntriesInfo:
        return await self._entries.info(tenant)
