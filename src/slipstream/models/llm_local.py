"""A language model on OpenVINO GenAI's continuous-batching pipeline, on this machine's CPU."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from slipstream.call import Call, Deadline, Span
from slipstream.errors import InvalidRequest, Unavailable
from slipstream.models.base import EngineLoad
from slipstream.models.chat_template import ChatTokenizer, TokenIds
from slipstream.models.engine_client import EngineClient, Generation
from slipstream.models.engine_wire import Open
from slipstream.models.generation_config import generation_config
from slipstream.models.prefix_ledger import SHARED
from slipstream.models.token_stream import TokenStream
from slipstream.runtime.workers import Worker
from slipstream.settings import EngineSettings
from slipstream.types import Language, Message, Sampling, Tokens


class OpenVinoLanguageModel:
    """Implements `models.base.LanguageModel` for a directory with an OpenVINO IR and its tokenizer.

    `Usage.cached_tokens` is an estimate (see `PrefixLedger`): the engine does not report prefix-cache hits.
    `load().kv_blocks_used` counts blocks held by unfinished requests only; those that the prefix cache keeps
    for reuse are free to take.
    """

    def __init__(
        self,
        directory: Path,
        *,
        name: str,
        languages: frozenset[Language],
        settings: EngineSettings,
        entropy: random.Random | None = None,
    ) -> None:
        """Light: nothing is loaded before `warm_up`. `entropy` gives the seeds of requests without one."""
        self.name = name
        self.languages = languages
        self.context_tokens = min(settings.context_tokens, _trained_context(directory))
        self._directory = directory
        self._settings = settings
        self._entropy = entropy or random.Random()
        self._worker = Worker(f"tokenizer-{name}")
        self._opening = asyncio.Lock()
        self._tokenizer: ChatTokenizer | None = None
        self._engine: EngineClient | None = None

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Raises Unavailable before `warm_up`."""
        return len(self._tokens().encode(tuple(messages)))

    def count_text_tokens(self, text: str) -> int:
        """Raises Unavailable before `warm_up`."""
        return self._tokens().count_text(text)

    @asynccontextmanager
    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, call: Call
    ) -> AsyncIterator[AsyncIterator[Tokens]]:
        engine, tokenizer = self._opened(), self._tokens()
        generation_config(sampling, tokenizer.stop_ids)
        self._refuse_endless(messages, tokenizer)
        ids = await self._worker.run(tokenizer.encode, tuple(messages))
        if len(ids) + sampling.max_tokens > self.context_tokens:
            raise self._too_long(str(len(ids)), sampling.max_tokens)
        call.deadline.check("the question waited for the language model")
        generation = self._generation(ids, sampling, call)
        engine.submit(generation)
        try:
            yield generation.stream
        finally:
            engine.cancel(generation)
            _record(generation)

    def load(self) -> EngineLoad:
        if self._engine is None:
            return EngineLoad(0, 0, 0.0, 0)
        running, waiting = self._engine.counts()
        used = self._engine.kv_used_fraction
        return EngineLoad(running, waiting, used, round(used * self._engine.opened.kv_blocks))

    async def warm_up(self, prefixes: Sequence[Sequence[Message]] = ()) -> None:
        """Loads (seconds), computes one full batch, and prefills each prefix.

        Raises DataError when the model cannot be used, ConfigError when the KV budget is too small for it.
        """
        async with self._opening:
            if self._engine is None:
                self._tokenizer, engine = await self._worker.run(self._open)
                self.context_tokens = min(self.context_tokens, engine.opened.kv_blocks * engine.opened.block_tokens)
                self._engine = engine
                await self._largest_batches()
        for prefix in prefixes:
            await self._compute(await self._worker.run(self._tokens().encode, tuple(prefix), False))

    def steps(self) -> int:
        """Steps the engine has taken: what "within a step" is counted in."""
        return 0 if self._engine is None else self._engine.steps

    def process_id(self) -> int | None:
        """Of the engine process, whose memory and processor time are this model's."""
        return None if self._engine is None else self._engine.process_id

    def healthy(self) -> bool:
        return self._engine is not None and self._engine.alive()

    async def close(self) -> None:
        if self._engine is not None:
            await asyncio.to_thread(self._engine.close)
        await self._worker.close()

    def _open(self) -> tuple[ChatTokenizer, EngineClient]:
        settings = self._settings
        order = Open(
            directory=self._directory,
            kv_cache_gib=settings.kv_cache_gib,
            max_batch_tokens=settings.max_batch_tokens,
            max_sequences=settings.max_sequences,
            threads=settings.threads,
        )
        return ChatTokenizer(self._directory), EngineClient(self.name, order)

    async def _largest_batches(self) -> None:
        """Prefill as wide as a step gets, then as many streams decoding at once as there may be."""
        await self._compute(_ordinary_ids(self._settings.max_batch_tokens))
        streams = range(self._settings.max_sequences)
        await asyncio.gather(*(self._compute(_ordinary_ids(4) + stream, max_tokens=3) for stream in streams))

    async def _compute(self, ids: TokenIds, max_tokens: int = 1) -> None:
        call = Call(SHARED, Deadline(None))
        sampling = Sampling(max_tokens=max_tokens)
        generation = self._generation(ids[: self.context_tokens - max_tokens], sampling, call)
        self._opened().submit(generation)
        async for _ in generation.stream:
            pass

    def _generation(self, ids: TokenIds, sampling: Sampling, call: Call) -> Generation:
        seed = self._entropy.getrandbits(63) if sampling.seed is None else sampling.seed
        return Generation(
            ids=ids,
            sampling=replace(sampling, seed=seed),
            stream=TokenStream(call.deadline),
            loop=asyncio.get_running_loop(),
            call=call,
        )

    def _tokens(self) -> ChatTokenizer:
        if self._tokenizer is None:
            raise Unavailable(f"The model {self.name} is still being loaded. Try again in a moment.")
        return self._tokenizer

    def _opened(self) -> EngineClient:
        if self._engine is None:
            raise Unavailable(f"The model {self.name} is still being loaded. Try again in a moment.")
        return self._engine

    def _refuse_endless(self, messages: Sequence[Message], tokenizer: ChatTokenizer) -> None:
        """Spares the tokenizer a text that cannot fit even if every token were the longest there is."""
        least = sum(len(message.text) for message in messages) // tokenizer.longest_token_bytes
        if least > self.context_tokens:
            raise self._too_long(f"at least {least}", 1)

    def _too_long(self, prompt_tokens: str, max_tokens: int) -> InvalidRequest:
        return InvalidRequest(
            f"The prompt takes {prompt_tokens} tokens and the answer up to {max_tokens}, but {self.name} holds "
            f"{self.context_tokens} in all. Shorten the prompt or lower max_tokens.",
            code="context_length_exceeded",
            param="messages",
        )


def _ordinary_ids(tokens: int) -> TokenIds:
    """So many tokens; which ones does not matter to the time they take, as long as they are no control tokens."""
    return np.arange(tokens, dtype=np.int64) % 1_000 + 1_000


def _trained_context(directory: Path) -> int:
    """The context length the model was trained for, where its config.json tells."""
    try:
        config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
        return int(config["max_position_embeddings"])
    except (OSError, ValueError, KeyError, TypeError):
        return 131_072


def _record(generation: Generation) -> None:
    """Writes to the call what the request waited for."""
    call, admitted_s, first_s = generation.call, generation.admitted_s, generation.first_token_s
    call.spans.append(Span("queue", generation.submitted_s, call.elapsed_s() if admitted_s is None else admitted_s))
    if admitted_s is not None:
        detail: dict[str, str | int | float | bool] = {
            "prompt_tokens": len(generation.ids),
            "cached_tokens": generation.cached_tokens,
        }
        call.spans.append(Span("prefill", admitted_s, call.elapsed_s() if first_s is None else first_s, detail))
