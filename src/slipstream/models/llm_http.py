"""A language model behind OpenAI-compatible servers: vLLM, SGLang, TGI, TensorRT-LLM, llama-server, hosted ones."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace

from slipstream.call import Call, Deadline, Span
from slipstream.errors import InvalidRequest, SlipstreamError, Unavailable
from slipstream.models.base import EngineLoad
from slipstream.models.remote.answer import AnswerReader
from slipstream.models.remote.attempt import Attempt
from slipstream.models.remote.counting import TokenCounter
from slipstream.models.remote.dispatch import Dispatcher, Request
from slipstream.models.remote.faults import Fault
from slipstream.models.remote.health import HealthChecks
from slipstream.models.remote.introduce import Introduction, calibrate, count_messages, introduce
from slipstream.models.remote.pace import Pace
from slipstream.models.remote.pool import Pool, prefix_key
from slipstream.models.remote.replica import Replica
from slipstream.models.remote.wire import request_body
from slipstream.observe.replicas import ReplicaFigures, TierFigures
from slipstream.settings import RemoteEngineSettings
from slipstream.types import Language, Message, Sampling, Tokens

_LONGEST_TOKEN_CHARACTERS = 24
"""Prose has no longer tokens on average; a prompt that exceeds the context even so is refused unasked."""
_WARM_S = 120.0

log = logging.getLogger(__name__)


class RemoteLanguageModel:
    """Implements `models.base.LanguageModel` over one or several replicas.

    A replica that fails before the first token is replaced unseen; one that fails after it ends the answer with
    Unavailable. `load().kv_used_fraction` is 0: the servers' memory is theirs.
    """

    def __init__(self, settings: RemoteEngineSettings) -> None:
        """Light: nothing is connected before `warm_up`. Raises ConfigError when the tokenizer is missing."""
        self.name = settings.model or settings.base_urls[0].partition("://")[2]
        self.languages: frozenset[Language] = frozenset(settings.languages)
        self.context_tokens = settings.context_tokens or 8_192
        self._settings = settings
        self._counter = TokenCounter(settings.tokenizer)
        self._pool = Pool([Replica(url, settings) for url in settings.base_urls])
        self._dispatcher = Dispatcher(self._pool, settings)
        self._pace = Pace()
        self._said: Introduction | None = None
        self._health: HealthChecks | None = None
        self._closed = False

    @property
    def replicas(self) -> Sequence[Replica]:
        return self._pool.replicas

    def figures(self) -> TierFigures:
        """For the metrics."""
        replicas = [
            ReplicaFigures(r.label, r.breaker.state, r.in_flight, r.requests, r.failures) for r in self.replicas
        ]
        dispatcher = self._dispatcher
        return TierFigures(replicas, dispatcher.failovers, dispatcher.hedges, dispatcher.hedges_won)

    def count_tokens(self, messages: Sequence[Message]) -> int:
        return self._counter.messages(messages)

    def count_text_tokens(self, text: str) -> int:
        return self._counter.text(text)

    @asynccontextmanager
    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, call: Call
    ) -> AsyncIterator[AsyncIterator[Tokens]]:
        said = self._introduced()
        await self._check(messages, sampling, said)
        async with aclosing(self._stream(messages, sampling, call, said)) as stream:
            yield stream

    def load(self) -> EngineLoad:
        """Of this process's requests; another gateway's are not known here."""
        waiting = sum(replica.waiting for replica in self.replicas)
        return EngineLoad(sum(replica.in_flight for replica in self.replicas) - waiting, waiting, 0.0)

    async def warm_up(self, prefixes: Sequence[Sequence[Message]] = ()) -> None:
        """Waits until a replica is up, asks what it is, and sends each the prefixes where that costs no money.

        Raises Unavailable when none comes up in time, ConfigError when the settings do not suit the server.
        """
        said = self._said or await self._open()
        if said.kind.warms:
            for prefix in prefixes:
                await self._send_ahead(prefix)

    async def _open(self) -> Introduction:
        for replica in self.replicas:
            replica.connect()
        said = await introduce(self.replicas, self._settings)
        self.name, self.context_tokens = said.model, said.context_tokens
        self._health = HealthChecks(self.replicas, said.health, self._settings.health_s)
        self._health.start()
        if (lender := self._pool.choose(None)) is not None:
            await calibrate(lender, said, self._counter)
        log.info(
            "The engine at %s is %s, serves %s with %d tokens of context.",
            ", ".join(replica.label for replica in self.replicas),
            said.kind.name,
            said.model,
            said.context_tokens,
        )
        self._said = said
        return said

    def healthy(self) -> bool:
        """Whether somebody watches the replicas: one that is down comes back, and is no reason to restart us."""
        return not self._closed and self._health is not None and self._health.alive

    async def close(self) -> None:
        self._closed = True
        if self._health is not None:
            await self._health.close()
        for replica in self.replicas:
            await replica.close()

    async def _stream(
        self, messages: Sequence[Message], sampling: Sampling, call: Call, said: Introduction
    ) -> AsyncGenerator[Tokens, None]:
        began_s = call.elapsed_s()
        sampling, shortened = self._within_deadline(sampling, call)
        reader = AnswerReader(self.count_tokens(messages))
        spans = (Span("queue", began_s), Span("prefill", began_s, None, {"prompt_tokens": 0, "cached_tokens": 0}))
        attempt: Attempt | None = None
        try:
            attempt = await self._dispatcher.begin(self._request(messages, sampling, call, said))
            spans[0].end_s = spans[1].start_s = attempt.sent_s
            spans[1].end_s = first_s = call.elapsed_s()
            async with aclosing(attempt.batches()) as batches:
                async for chunks in batches:
                    if tokens := reader.read(chunks):
                        yield tokens
            last = reader.last()
            if shortened and last.finish_reason == "length":
                call.degrade("answer_length")
            if reader.usage is not None and last.usage is not None:
                self._counter.learn(messages, last.usage.prompt_tokens)
                self._pace.learn(first_s - attempt.sent_s, call.elapsed_s() - first_s, last.usage.completion_tokens)
            yield (last,)
        except Fault as fault:
            log.warning("Engine %s failed within an answer: %s", _label(attempt), fault.error.message)
            raise fault.error from fault
        finally:
            if attempt is not None:
                await attempt.close()
                _record(call, spans, reader, attempt)

    def _request(self, messages: Sequence[Message], sampling: Sampling, call: Call, said: Introduction) -> Request:
        settings = self._settings
        salted = settings.salt_tenants and bool(said.kind.salt)
        key = prefix_key(messages, call.tenant if salted else "")
        body = request_body(
            messages,
            sampling,
            call,
            kind=said.kind,
            model=said.model,
            affinity="" if key is None else key.hex(),
            salted=salted,
            extra=settings.extra_body,
        )
        return Request(body, key, call)

    def _within_deadline(self, sampling: Sampling, call: Call) -> tuple[Sampling, bool]:
        """No more tokens than there is time for, and whether that is fewer than were asked for."""
        affordable = self._pace.affordable(call.deadline)
        if affordable is None or affordable >= sampling.max_tokens:
            return sampling, False
        return replace(sampling, max_tokens=affordable), True

    async def _check(self, messages: Sequence[Message], sampling: Sampling, said: Introduction) -> None:
        """Raises InvalidRequest when prompt and answer do not fit. A close estimate is left to the server to judge."""
        counted = self.count_tokens(messages)
        if counted + sampling.max_tokens <= self.context_tokens:
            return
        characters = sum(len(message.text) for message in messages)
        if characters // _LONGEST_TOKEN_CHARACTERS < self.context_tokens:
            counted = await self._ask_count(messages, said) or counted
        if counted + sampling.max_tokens > self.context_tokens:
            raise InvalidRequest(
                f"The prompt takes {counted} tokens and the answer up to {sampling.max_tokens}, but {self.name} holds "
                f"{self.context_tokens} in all. Shorten the prompt or lower max_tokens.",
                code="context_length_exceeded",
                param="messages",
            )

    async def _ask_count(self, messages: Sequence[Message], said: Introduction) -> int | None:
        """The server's own count, where it gives one."""
        replica = self._pool.choose(None)
        if replica is None:
            return None
        try:
            counted = await count_messages(replica, said, messages)
        except Fault:
            return None
        if counted is not None:
            self._counter.learn(messages, counted)
        return counted

    async def _send_ahead(self, prefix: Sequence[Message]) -> None:
        """Fills a prefix cache. Some chat templates want a user's turn behind the system message."""
        messages = (*prefix, Message("user", "."))
        try:
            async with self.generate(
                messages, Sampling(max_tokens=1), Call("warm-up", Deadline.after(_WARM_S))
            ) as stream:
                async for _ in stream:
                    pass
        except SlipstreamError as error:
            log.warning("A prompt could not be sent ahead to the engine: %s", error.message)

    def _introduced(self) -> Introduction:
        if self._said is None or self._closed:
            raise Unavailable(f"The model {self.name} is not connected. Try again in a moment.")
        return self._said


def _label(attempt: Attempt | None) -> str:
    return "" if attempt is None else attempt.replica.label


def _record(call: Call, spans: tuple[Span, Span], reader: AnswerReader, attempt: Attempt) -> None:
    """Writes to the call what the request waited for, and where it went."""
    queue, prefill = spans
    prefill.detail["replica"] = attempt.replica.label
    if reader.usage is not None:
        prefill.detail["prompt_tokens"] = reader.usage.prompt_tokens
        prefill.detail["cached_tokens"] = reader.usage.cached_tokens
    call.spans += (queue, prefill)
