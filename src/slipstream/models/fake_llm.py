"""A language model without weights: it quotes passage 1, token by token, as fast or as slowly as told."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeAlias

from slipstream.call import Call
from slipstream.errors import InvalidRequest, SlipstreamError, Unavailable
from slipstream.models.base import EngineLoad
from slipstream.types import FinishReason, Language, Message, Sampling, Token, Tokens, Usage

Sleep: TypeAlias = Callable[[float], Awaitable[None]]

_PASSAGE = re.compile(r'<passage id="1"[^>]*>\s*(.*?)\s*</passage>', re.DOTALL)
_QUOTED_LINE = re.compile(r"^“(.+)”$", re.MULTILINE)
_SENTENCE = re.compile(r".+?(?:[.!?](?=\s|$)|[。！？]|\n|$)", re.DOTALL)
_PIECE = re.compile(r"\s*(?:[^\s\u3000-\u9fff]+|[\u3000-\u9fff])")
_NOTHING = "I have nothing to quote."
_BLOCK_TOKENS = 32
_READY_TOKENS = 64
"""What a reader is given at once when no time is to pass between tokens."""


class FakeLanguageModel:
    """Implements `models.base.LanguageModel`, deterministically and at next to no cost.

    The answer is the first sentence after the label line of passage 1, or the first quoted line, then " [1]";
    without either, a fixed sentence. With `tokens`, it is repeated or cut to that length.
    """

    def __init__(
        self,
        name: str = "fake",
        *,
        tokens: int | None = None,
        prefill_s: float = 0.0,
        token_s: float = 0.0,
        slots: int = 1_024,
        context_tokens: int = 4_096,
        languages: frozenset[Language] = frozenset(("en", "zh", "other")),
        fail_with: SlipstreamError | None = None,
        fail_after: int = 0,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """`prefill_s` passes before the first token and `token_s` before each further one, by `sleep`.

        `fail_with` is raised once `fail_after` tokens have been streamed.
        """
        self.name = name
        self.context_tokens = context_tokens
        self.languages = languages
        self._tokens = tokens
        self._prefill_s = prefill_s
        self._token_s = token_s
        self._slots = slots
        self._free = asyncio.Semaphore(slots)
        self._fail_with = fail_with
        self._fail_after = fail_after
        self._sleep = sleep
        self._unfinished = 0
        self._running = 0
        self._blocks = 0
        self._closed = False

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Four per message, and one for four bytes of text."""
        return sum(4 + self.count_text_tokens(message.text) for message in messages)

    def count_text_tokens(self, text: str) -> int:
        return -(-len(text.encode()) // 4)

    @asynccontextmanager
    async def generate(
        self, messages: Sequence[Message], sampling: Sampling, call: Call
    ) -> AsyncIterator[AsyncIterator[Tokens]]:
        prompt_tokens = self.count_tokens(messages)
        self._check(prompt_tokens, sampling)
        stream = self._stream(self._answer(messages), prompt_tokens, sampling, call)
        self._unfinished += 1
        try:
            yield stream
        finally:
            self._unfinished -= 1
            await stream.aclose()

    def load(self) -> EngineLoad:
        return EngineLoad(self._running, self._unfinished - self._running, self._running / self._slots, self._blocks)

    async def warm_up(self, prefixes: Sequence[Sequence[Message]] = ()) -> None:
        return None

    def healthy(self) -> bool:
        return not self._closed

    async def close(self) -> None:
        self._closed = True

    def _check(self, prompt_tokens: int, sampling: Sampling) -> None:
        if self._closed:
            raise Unavailable(f"The model {self.name} has been closed.")
        if prompt_tokens + sampling.max_tokens > self.context_tokens:
            raise InvalidRequest(
                f"The prompt takes {prompt_tokens} tokens and the answer up to {sampling.max_tokens}, but {self.name} "
                f"holds {self.context_tokens} in all. Shorten the prompt or lower max_tokens.",
                code="context_length_exceeded",
                param="messages",
            )

    def _answer(self, messages: Sequence[Message]) -> list[str]:
        text = next(filter(None, (_quoted(message.text) for message in reversed(messages))), _NOTHING)
        pieces = _PIECE.findall(text)
        return pieces if self._tokens is None else list(itertools.islice(itertools.cycle(pieces), self._tokens))

    async def _stream(
        self, pieces: list[str], prompt_tokens: int, sampling: Sampling, call: Call
    ) -> AsyncGenerator[Tokens, None]:
        pieces, reason = _cut(pieces, sampling)
        last = Token(pieces[-1] if pieces else "", 1 if pieces else 0, reason, Usage(prompt_tokens, len(pieces)))
        tokens = (*map(Token, pieces[:-1]), last)
        with call.stage("queue"):
            await self._free.acquire()
        blocks = -(-prompt_tokens // _BLOCK_TOKENS)
        self._running += 1
        self._blocks += blocks
        try:
            with call.stage("prefill", prompt_tokens=prompt_tokens, cached_tokens=0):
                await self._pass(self._prefill_s, call)
            if not self._token_s and self._fail_with is None:
                for start in range(0, len(tokens), _READY_TOKENS):
                    call.deadline.check("the answer was being generated")
                    yield tokens[start : start + _READY_TOKENS]
                return
            for number, token in enumerate(tokens):
                if number:
                    await self._pass(self._token_s, call)
                self._fail_at(number)
                yield (token,)
        finally:
            self._running -= 1
            self._blocks -= blocks
            self._free.release()

    async def _pass(self, seconds: float, call: Call) -> None:
        """Lets time pass, but not beyond the deadline."""
        if seconds:
            await self._sleep(max(0.0, min(seconds, call.deadline.remaining_s())))
        call.deadline.check("the answer was being generated")

    def _fail_at(self, streamed: int) -> None:
        if self._fail_with is not None and streamed >= self._fail_after:
            raise self._fail_with


def _quoted(prompt: str) -> str | None:
    """The first sentence of passage 1, or the first quoted line, with its marker."""
    if (passage := _PASSAGE.search(prompt)) is not None:
        return f"{_first_sentence(passage[1])} [1]"
    line = _QUOTED_LINE.search(prompt)
    return f"{line[1]} [1]" if line is not None else None


def _first_sentence(passage: str) -> str:
    """Of what follows the label line, when there is one."""
    body = passage.partition("\n")[2] or passage
    found = _SENTENCE.match(body.strip())
    return found[0].strip() if found else passage.strip()


def _cut(pieces: list[str], sampling: Sampling) -> tuple[list[str], FinishReason]:
    """The pieces up to `max_tokens` and the first stop string."""
    reason: FinishReason = "stop" if len(pieces) <= sampling.max_tokens else "length"
    pieces = pieces[: sampling.max_tokens]
    if sampling.stop:
        text = "".join(pieces)
        end = min((at for stop in sampling.stop if (at := text.find(stop)) >= 0), default=-1)
        if end >= 0:
            return _PIECE.findall(text[:end]), "stop"
    return pieces, reason
