"""A block of work that ends when its deadline does."""

from __future__ import annotations

import asyncio
import math
from types import TracebackType

from slipstream.call import Deadline
from slipstream.errors import DeadlineExceeded


class within:  # noqa: N801 - read as a preposition: `async with within(...)`
    """Cancels the block at the deadline. Raises DeadlineExceeded then, and at once when it has passed already."""

    __slots__ = ("_deadline", "_doing", "_limit")

    def __init__(self, deadline: Deadline, doing: str) -> None:
        self._deadline = deadline
        self._doing = doing

    async def __aenter__(self) -> None:
        self._deadline.check(self._doing)
        remaining_s = self._deadline.remaining_s()
        self._limit = asyncio.timeout(None if math.isinf(remaining_s) else remaining_s)
        await self._limit.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._limit.__aexit__(kind, error, trace)
        except TimeoutError:
            raise DeadlineExceeded(
                f"The deadline passed while {self._doing}. Ask with a larger deadline_ms, or try again when load is "
                "lower."
            ) from None
