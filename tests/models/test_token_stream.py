"""The receiving end of a generation: order, gathering, errors, deadlines."""

from __future__ import annotations

import asyncio

import pytest

from slipstream.call import Deadline
from slipstream.errors import DeadlineExceeded, Unavailable
from slipstream.models.token_stream import TokenStream
from slipstream.types import Token, Usage

pytestmark = pytest.mark.anyio


async def test_a_reader_who_lags_gets_what_gathered_as_one_piece() -> None:
    stream = TokenStream(Deadline(None))
    stream.feed(Token("a"))
    stream.feed(Token("b", 2))
    stream.feed(Token("c", 1, "stop", Usage(1, 4)))
    assert [tokens async for tokens in stream] == [(Token("abc", 4, "stop", Usage(1, 4)),)]
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_a_waiting_reader_is_woken() -> None:
    stream = TokenStream(Deadline(None))
    reader = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    assert not reader.done()
    stream.feed(Token("a"))
    assert await reader == (Token("a"),)


async def test_text_before_an_error_is_delivered_first() -> None:
    stream = TokenStream(Deadline(None))
    stream.feed(Token("a"))
    stream.feed(Unavailable("down"))
    assert await anext(stream) == (Token("a"),)
    with pytest.raises(Unavailable):
        await anext(stream)
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_the_deadline_wakes_a_waiting_reader() -> None:
    stream = TokenStream(Deadline.after(0.01))
    with pytest.raises(DeadlineExceeded):
        await anext(stream)
