"""Protocols of what computes: encoder, cross-encoder, language model. Batch-shaped, without queues."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from slipstream.call import Call
from slipstream.types import Encoding, Language, Message, Sampling, Tokens

TextKind: TypeAlias = Literal["query", "passage"]


class Encoder(Protocol):
    """Text → one dense vector and its token vectors, from one forward pass."""

    name: str
    dimensions: int
    max_tokens: int
    """Longest input in tokens, specials and prefix included; longer text is truncated."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens per text, specials and prefix left out. Thread-safe, cheap enough for workers only."""
        ...

    async def encode(self, texts: Sequence[str], kind: TextKind) -> list[Encoding]:
        """One batch. Runs off the event loop. Order is kept.

        Raises Unavailable when the model is not loaded, Bug when it fails.
        """
        ...

    async def warm_up(self) -> None:
        """Loads the model and runs its largest batch once."""
        ...

    async def close(self) -> None: ...


class CrossEncoder(Protocol):
    """(query, passage) pairs → relevance."""

    name: str

    async def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """One batch of pairs; a higher score is more relevant. Order is kept. Runs off the event loop.

        Raises Unavailable when it is down or not loaded, Overloaded when it refuses, InvalidRequest for a query
        that leaves no room for a passage, Bug when it fails.
        """
        ...

    async def warm_up(self) -> None:
        """Loads the model, or tries the remote one: ConfigError when it cannot be used as it is configured."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """What a language model is doing now; the figures of one instant."""

    running: int
    waiting: int
    kv_used_fraction: float
    """0…1 of the KV blocks that exist."""
    kv_blocks_used: int | None = None
    """Blocks held by unfinished requests plus prefix-cached ones, where the engine tells."""


class LanguageModel(Protocol):
    """Messages → tokens, streamed."""

    name: str
    context_tokens: int
    """Prompt plus answer at most."""
    languages: frozenset[Language]
    """Languages it answers in acceptably."""

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Prompt tokens with the chat template applied. Thread-safe; microseconds per kilobyte."""
        ...

    def count_text_tokens(self, text: str) -> int:
        """Tokens of bare text, without template or specials."""
        ...

    def generate(
        self, messages: Sequence[Message], sampling: Sampling, call: Call
    ) -> AbstractAsyncContextManager[AsyncIterator[Tokens]]:
        """Starts a generation; leaving the context cancels it and frees its slot within a step.

        The iterator yields text as it comes, all that is there at once; the last Token carries `finish_reason` and
        `usage`.
        The deadline of the call ends it with DeadlineExceeded.
        Raises InvalidRequest when the prompt does not fit, Overloaded when the engine refuses,
        Unavailable when it is down.
        """
        ...

    def load(self) -> EngineLoad: ...

    async def warm_up(self, prefixes: Sequence[Sequence[Message]] = ()) -> None:
        """Loads the model, runs its largest batch and prefills the given prompt prefixes."""
        ...

    def healthy(self) -> bool:
        """False once its thread or connection died: readiness goes down with it."""
        ...

    async def close(self) -> None:
        """Cancels what runs, drains, frees."""
        ...
