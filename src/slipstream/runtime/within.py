"""A block of work that ends when its deadline does."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from slipstream.call import Deadline
from slipstream.errors import DeadlineExceeded


@asynccontextmanager
async def within(deadline: Deadline, doing: str) -> AsyncIterator[None]:
    """Cancels the block at the deadline. Raises DeadlineExceeded then, and at once when it has passed already."""
    deadline.check(doing)
    remaining_s = deadline.remaining_s()
    try:
        async with asyncio.timeout(None if math.isinf(remaining_s) else remaining_s) as limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise DeadlineExceeded(
            f"The deadline passed while {doing}. Ask with a larger deadline_ms, or try again when load is lower."
        ) from None
