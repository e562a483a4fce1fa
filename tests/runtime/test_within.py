"""A block that ends when its deadline does."""

from __future__ import annotations

import asyncio

import pytest

from slipstream.call import Deadline
from slipstream.errors import DeadlineExceeded
from slipstream.runtime.within import within

pytestmark = pytest.mark.anyio


async def test_the_block_is_cancelled_at_the_deadline() -> None:
    with pytest.raises(DeadlineExceeded, match="passed while waiting for nothing"):
        async with within(Deadline.after(0.01), "waiting for nothing"):
            await asyncio.Event().wait()


async def test_a_deadline_that_passed_lets_nothing_begin() -> None:
    with pytest.raises(DeadlineExceeded):
        async with within(Deadline.after(-1), "waiting"):
            pytest.fail("It began.")


async def test_a_timeout_of_the_blocks_own_is_not_the_deadline() -> None:
    with pytest.raises(TimeoutError, match="own"):
        async with within(Deadline.after(None), "waiting"):
            raise TimeoutError("own")
