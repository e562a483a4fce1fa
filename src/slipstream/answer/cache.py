"""Question → events through the cache: what was checked is served, what is being written is shared, the rest is run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, replace
from typing import TypeAlias

from slipstream.answer.pipeline import Pipeline
from slipstream.cache.answers import AnswerCache, Hit, Near
from slipstream.cache.entry import Entry
from slipstream.cache.keys import Key, key_of
from slipstream.cache.single_flight import SingleFlight
from slipstream.call import Call
from slipstream.errors import DeadlineExceeded
from slipstream.runtime.within import within
from slipstream.types import (
    Answer,
    CacheDecision,
    CacheStatus,
    Citation,
    Encoding,
    Event,
    Finished,
    Found,
    Language,
    Passages,
    Query,
    Question,
    Token,
    Verdict,
)

Admit: TypeAlias = Callable[[Question, Call], AbstractAsyncContextManager[object]]
"""Holds a question's place among those that compute."""


@dataclass(frozen=True, slots=True)
class _FlightKey:
    key: Key
    epoch: int | None
    refresh: bool


@dataclass(frozen=True, slots=True)
class _Run:
    """One question on its way through the cache."""

    question: Question
    planned: Question
    """Lowered to fit its deadline; the question itself when nothing had to be lowered."""
    query: Query
    key: Key
    epoch: int | None
    """Read before anything was searched."""
    purges: int

    @property
    def whole(self) -> bool:
        return self.planned is self.question

    @property
    def flight(self) -> _FlightKey:
        return _FlightKey(self.key, self.epoch, self.question.cache == "refresh")


@dataclass(frozen=True, slots=True)
class _Writing:
    """An answer being written, that a question in other words may wait for."""

    draft: Entry
    flight: _FlightKey


class CachedAnswers:
    """Wraps the pipeline's `answer`. Only what computes is admitted: what is ready is served at once."""

    def __init__(self, pipeline: Pipeline, cache: AnswerCache, admit: Admit) -> None:
        self._pipeline = pipeline
        self._cache = cache
        self._admit = admit
        self._flights: SingleFlight[_FlightKey, Event] = SingleFlight(_is_last)
        self._writing: dict[str, list[_Writing]] = {}

    async def close(self) -> None:
        await self._flights.close()

    async def answer(self, question: Question, call: Call) -> AsyncGenerator[Event, None]:
        """As Pipeline.answer; the finished answer says what the cache did."""
        run = self._run(question, call)
        ready = self._ready(run, call) if question.cache == "auto" else None
        async with aclosing(ready or self._fresh(run, call)) as events:
            async for event in events:
                if isinstance(event, Finished) and event.answer.cache is not None:
                    self._cache.answered(call.request_id, call.tenant, event.answer.cache)
                yield event

    def _run(self, question: Question, call: Call) -> _Run:
        epoch = self._cache.epochs.of(question.scope)
        query = self._pipeline.rewrite(question, call)
        key = key_of(question, query, self._cache.house)
        return _Run(question, self._pipeline.plan(question, call), query, key, epoch, self._cache.purges(key.tenant))

    # --- ready ---

    def _ready(self, run: _Run, call: Call) -> AsyncGenerator[Event, None] | None:
        served = self._cache.ready(run.key, run.epoch, run.question)
        if served is None:
            return None
        age_s = self._cache.age_s(served.stored_at)
        verdict = Verdict("evidence", passed=True, detail="no document of the scope has changed since the last check")
        decision = CacheDecision("hit", "exact", age_s, (verdict,), served.entry_id)
        call.mark("cache", status="hit", level="exact", age_s=round(age_s, 3))
        call.degraded.clear()  # what the plan dropped was not needed
        self._cache.metrics.decided(decision, served.cost_s)
        return _replayed(served.found, served.answer, decision)

    # --- shared ---

    async def _fresh(self, run: _Run, call: Call) -> AsyncGenerator[Event, None]:
        if not run.whole or not self._calm(run):
            async with aclosing(self._looked_up(run, call)) as events:
                async for event in events:
                    yield event
            return
        follows = self._flights.running(run.flight)
        events = self._flights.join(run.flight, lambda: self._looked_up(run, call))
        if not follows:
            async with aclosing(events) as mine:
                async for event in mine:
                    yield event
            return
        async with aclosing(self._followed(events, run, call, ())) as shared:
            async for event in shared:
                yield event

    async def _followed(
        self, events: AsyncGenerator[Event, None], run: _Run, call: Call, verdicts: tuple[Verdict, ...]
    ) -> AsyncGenerator[Event, None]:
        """An answer that another request had begun; one's own when that one had too little time."""
        begun = False
        try:
            async with aclosing(events):
                with call.stage("shared"):
                    while True:
                        async with within(call.deadline, "waiting for an answer that is being written"):
                            event = await anext(events, None)
                        if event is None:
                            return
                        begun = True
                        yield self._shared(event, verdicts) if isinstance(event, Finished) else event
        except DeadlineExceeded:
            if begun or call.deadline.remaining_s() <= 0:
                raise
        async with aclosing(self._written_anew(run, call)) as own:
            async for event in own:
                yield event

    def _shared(self, event: Finished, verdicts: tuple[Verdict, ...]) -> Finished:
        entry = event.answer.cache.entry if event.answer.cache is not None else ""
        decision = CacheDecision("hit", "flight", 0.0, verdicts, entry)
        self._cache.metrics.decided(decision)
        return Finished(replace(event.answer, cache=decision))

    # --- looked up ---

    async def _written_anew(self, run: _Run, call: Call) -> AsyncGenerator[Event, None]:
        async with aclosing(self._looked_up(run, call)) as events:
            async for event in events:
                yield event

    async def _looked_up(self, run: _Run, call: Call) -> AsyncGenerator[Event, None]:
        """Searches; serves a stored answer that passes every check, joins one being written, or writes its own."""
        async with self._admit(run.question, call):
            encoding, passages, near = await self._searched(run, call)
            language = run.query.language
            with call.stage("cache") as span:
                found = self._cache.decide(near, run.key, language, encoding, passages.items, run.question)
                draft = self._cache.draft(run.key, language, encoding, passages.items, run.question.cache_tag)
                span.detail["status"] = "hit" if isinstance(found, Hit) else "miss"
                if isinstance(found, Hit):
                    span.detail["level"] = found.level
                for verdict in found.verdicts:
                    span.detail[verdict.check] = verdict.detail
            if isinstance(found, Hit):
                async for event in self._served(found, run, passages, call):
                    yield event
                return
            other = self._joinable(run, language, encoding, passages)
            if other is not None:
                joined = self._flights.join(other.flight, lambda: self._own(run, passages, draft, found.verdicts, call))
                async with aclosing(self._followed(joined, run, call, found.verdicts)) as shared:
                    async for event in shared:
                        yield event
                return
            async with aclosing(self._own(run, passages, draft, found.verdicts, call)) as own:
                async for event in own:
                    yield event

    async def _searched(self, run: _Run, call: Call) -> tuple[Encoding, Passages, Near]:
        """The question's own retrieval; the cache is looked up while reranking runs."""
        async with within(call.deadline, "searching"):
            candidates = await self._pipeline.search(run.query, run.planned, call)
            looking = asyncio.ensure_future(self._near(run, candidates.encoding))
            try:
                passages = await self._pipeline.rank(candidates, run.planned, call)
                return candidates.encoding, passages, await looking
            finally:
                looking.cancel()

    async def _near(self, run: _Run, encoding: Encoding) -> Near:
        return await self._cache.near(run.key, encoding) if run.question.cache == "auto" else Near()

    async def _served(self, hit: Hit, run: _Run, passages: Passages, call: Call) -> AsyncIterator[Event]:
        """The stored answer with its citations resolved to the passages just found."""
        entry = hit.entry
        found = Found(passages.query, _renumbered(self._pipeline.finish.citations(passages), entry))
        by_id = {citation.passage.id: citation for citation in found.citations}
        answer = Answer(
            text=entry.answer,
            citations=tuple(by_id[cited.passage_id] for cited in entry.cited if cited.passage_id in by_id),
            finish_reason=entry.finish_reason,
            usage=entry.usage,
            tier=entry.tier,
            model=entry.model,
            supported=entry.supported,
        )
        if run.whole and not call.degraded:
            self._cache.serve(hit, run.key, run.epoch, found, answer)
        decision = CacheDecision("hit", hit.level, self._cache.age_s(entry.stored_at), hit.verdicts, entry.id)
        self._cache.metrics.decided(decision, entry.cost_s)
        async for event in _replayed(found, answer, decision):
            yield event

    def _joinable(self, run: _Run, language: Language, encoding: Encoding, passages: Passages) -> _Writing | None:
        """An answer being written to a question that is this one in other words."""
        if run.question.cache != "auto" or not self._cache.settings.semantic:
            return None
        for writing in self._writing.get(run.key.scope, ()):
            mine = writing.flight == run.flight or writing.flight.epoch != run.epoch
            if mine or not self._flights.running(writing.flight):
                continue
            hit = self._cache.decide(
                Near(others=(writing.draft,)),
                run.key,
                language,
                encoding,
                passages.items,
                replace(run.question, cache_max_age_s=None),
            )
            if isinstance(hit, Hit):
                return writing
        return None

    # --- written ---

    async def _own(
        self, run: _Run, passages: Passages, draft: Entry, verdicts: tuple[Verdict, ...], call: Call
    ) -> AsyncGenerator[Event, None]:
        """Runs the rest of the path, and keeps the answer when it is whole."""
        began_s = call.elapsed_s()
        writing = _Writing(draft, run.flight)
        shares = run.whole and not call.degraded and self._calm(run)
        if shares:
            self._writing.setdefault(run.key.scope, []).append(writing)
        status: CacheStatus = "refresh" if run.question.cache == "refresh" else "miss"
        found: Found | None = None
        try:
            async with aclosing(self._pipeline.write(run.planned, passages, call)) as events:
                async for event in events:
                    if isinstance(event, Finished):
                        kept = ""
                        if found is not None and self._may_keep(run, event.answer, call):
                            cost_s = call.elapsed_s() - began_s
                            kept = self._cache.keep(draft, run.key, run.epoch, run.purges, found, event.answer, cost_s)
                        decision = CacheDecision(status, None, None, verdicts, kept)
                        self._cache.metrics.decided(decision)
                        yield Finished(replace(event.answer, cache=decision))
                        continue
                    if isinstance(event, Found):
                        found = event
                    yield event
        finally:
            if shares:
                self._unlist(run.key.scope, writing)

    def _may_keep(self, run: _Run, answer: Answer, call: Call) -> bool:
        """Never what was cut short, lowered to fit a deadline, or drawn at random."""
        return run.whole and not call.degraded and answer.finish_reason == "stop" and self._calm(run)

    def _calm(self, run: _Run) -> bool:
        """Whether two runs would say about the same: whoever asks for variety neither shares nor is kept."""
        return run.question.sampling.temperature <= self._cache.settings.max_temperature

    def _unlist(self, scope: str, writing: _Writing) -> None:
        others = [other for other in self._writing[scope] if other is not writing]
        if others:
            self._writing[scope] = others
        else:
            del self._writing[scope]


def _is_last(event: Event) -> bool:
    return isinstance(event, Finished)


async def _replayed(found: Found, answer: Answer, decision: CacheDecision) -> AsyncGenerator[Event, None]:
    """All at once: there is nothing to wait for. Nothing was computed, so the prompt counts as cached."""
    usage = replace(answer.usage, cached_tokens=answer.usage.prompt_tokens)
    yield found
    yield (Token(answer.text, 0, answer.finish_reason, usage),)
    yield Finished(replace(answer, usage=usage, tier="cached", cache=decision))


def _renumbered(citations: tuple[Citation, ...], entry: Entry) -> tuple[Citation, ...]:
    """The passages found now, with the numbers that the stored text calls them by."""
    named = {cited.passage_id: cited.index for cited in entry.cited}
    free = iter(n for n in range(1, len(citations) + len(named) + 1) if n not in named.values())
    numbered = [replace(c, index=named.get(c.passage.id) or next(free)) for c in citations]
    return tuple(sorted(numbered, key=lambda citation: citation.index))
