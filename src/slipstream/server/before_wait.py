"""Awaits something, doing something else first if, and only if, it would wait."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class BeforeWait(Generic[T]):
    """`await BeforeWait(events.__anext__(), flush)` runs `flush` when no event is there yet.

    So events that already wait gather, and leave in one write before the first suspension: no event is ever
    held back for company. It works by driving the awaitable one step by hand: an awaitable that is done
    without suspending returns at once, and otherwise its first suspension is repeated after the flush.
    """

    __slots__ = ("_awaitable", "_flush")

    def __init__(self, awaitable: Awaitable[T], flush: Callable[[], Awaitable[None]]) -> None:
        self._awaitable = awaitable
        self._flush = flush

    def __await__(self) -> Generator[Any, Any, T]:
        steps: Any = self._awaitable.__await__()
        try:
            waits_for = steps.send(None)
            try:
                yield from self._flush().__await__()
            except BaseException as error:  # a cancellation or a failed flush belongs to whoever waits inside
                waits_for = steps.throw(error)
            while True:
                try:
                    sent = yield waits_for
                except BaseException as error:
                    waits_for = steps.throw(error)
                else:
                    waits_for = steps.send(sent)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
