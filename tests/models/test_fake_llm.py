"""The shipped fake: what it quotes, how it passes time, how it fails when told to."""

from __future__ import annotations

import asyncio

import pytest

from slipstream.call import Call, Deadline
from slipstream.errors import DeadlineExceeded, Unavailable
from slipstream.models.fake_llm import FakeLanguageModel
from slipstream.types import Message, Sampling, Token

pytestmark = pytest.mark.anyio
DEFAULT = Sampling()


def prompt(passage: str) -> tuple[Message, ...]:
    return (Message("user", f'<passage id="1">\n{passage}\n</passage>\n\nQuestion: ?'),)


async def read(model: FakeLanguageModel, messages: tuple[Message, ...], sampling: Sampling = DEFAULT) -> list[Token]:
    async with model.generate(messages, sampling, Call("t", Deadline(None))) as stream:
        return [token async for tokens in stream for token in tokens]


@pytest.mark.parametrize(
    ("passage", "text"),
    [
        ("Guide › Pools\nTen are kept open. It grows.", "Ten are kept open. [1]"),
        ("指南\n连接池保留十个连接。按需增长。", "连接池保留十个连接。 [1]"),
        ("No label here. Second.", "No label here. [1]"),
    ],
)
async def test_it_quotes_the_first_sentence_of_passage_1(passage: str, text: str) -> None:
    tokens = await read(FakeLanguageModel(), prompt(passage))
    assert "".join(token.text for token in tokens) == text
    assert tokens[-1].finish_reason == "stop"


async def test_without_passages_it_says_so() -> None:
    tokens = await read(FakeLanguageModel(), (Message("user", "hi"),))
    assert "".join(token.text for token in tokens) == "I have nothing to quote."


@pytest.mark.parametrize("count", [1, 32, 200])
async def test_it_streams_the_number_of_tokens_it_was_told(count: int) -> None:
    tokens = await read(FakeLanguageModel(tokens=count), prompt("T\nA few words."), Sampling(max_tokens=200))
    assert len(tokens) == count


async def test_time_passes_before_the_first_token_and_between_tokens() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    await read(FakeLanguageModel(tokens=3, prefill_s=2.0, token_s=0.5, sleep=sleep), prompt("T\nWords."))
    assert slept == [2.0, 0.5, 0.5]


async def test_time_stops_at_the_deadline() -> None:
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    model = FakeLanguageModel(prefill_s=10.0, sleep=sleep)
    with pytest.raises(DeadlineExceeded):
        async with model.generate(prompt("T\nWords."), Sampling(), Call("t", Deadline.after(3, lambda: now))) as stream:
            await anext(stream)
    assert now == 3.0
    assert model.load().running == 0


async def test_it_fails_after_as_many_tokens_as_told() -> None:
    model = FakeLanguageModel(fail_with=Unavailable("down"), fail_after=2)
    async with model.generate(prompt("T\nOne two three four."), Sampling(), Call("t", Deadline(None))) as stream:
        assert [(await anext(stream))[0].text for _ in range(2)] == ["One", " two"]
        with pytest.raises(Unavailable):
            await anext(stream)


async def test_a_request_beyond_the_slots_waits() -> None:
    model = FakeLanguageModel(slots=1)
    messages = prompt("T\nOne two.")
    async with model.generate(messages, Sampling(), Call("t", Deadline(None))) as first:
        await anext(first)
        second = asyncio.create_task(read(model, messages))
        await asyncio.sleep(0)
        load = model.load()
        assert (load.running, load.waiting) == (1, 1)
        assert not second.done()
    assert await second
    assert model.load().running == 0
