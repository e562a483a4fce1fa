"""Chunks of a remote answer → tokens as the path knows them, the last one with its usage."""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.models.remote.wire import Chunk
from slipstream.types import FinishReason, Token, Tokens, Usage


class AnswerReader:
    """Text goes on at once; the finish reason waits for the usage, which comes behind it."""

    __slots__ = ("_counted", "_finish_reason", "_prompt_tokens", "_usage")

    def __init__(self, prompt_tokens: int) -> None:
        """`prompt_tokens` stands in where the server reports no usage."""
        self._prompt_tokens = prompt_tokens
        self._counted = 0
        self._finish_reason: FinishReason | None = None
        self._usage: Usage | None = None

    @property
    def usage(self) -> Usage | None:
        """As the server reported it; None while it has not."""
        return self._usage

    def read(self, chunks: Sequence[Chunk]) -> Tokens:
        """Empty when there is no text among them."""
        for chunk in chunks:
            self._finish_reason = chunk.finish_reason or self._finish_reason
            self._usage = chunk.usage or self._usage
        tokens = tuple([Token(chunk.text) for chunk in chunks if chunk.text])
        self._counted += len(tokens)
        return tokens

    def last(self) -> Token:
        """Servers send several model tokens in a chunk, and some without text: the difference counts here."""
        usage = self._usage
        if usage is None or not usage.completion_tokens:
            usage = Usage(self._prompt_tokens, self._counted)
        left = max(0, usage.completion_tokens - self._counted)
        return Token("", left, self._finish_reason or "length", usage)
