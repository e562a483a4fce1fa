"""The official client, unmodified, against a server on a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import openai
import pytest

from slipstream.call import Call
from slipstream.errors import Overloaded, Unavailable
from slipstream.server.fake import CITATION, ScriptedService
from slipstream.types import Event, Found, Query, Question, Token

pytestmark = pytest.mark.anyio

ASK: list[Any] = [{"role": "user", "content": "What colour is the sky?"}]
TEXT = "The sky is blue [1]."


@pytest.fixture
async def client(served: Any) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="unused", max_retries=0) as client:
        yield client


async def test_whole(client: openai.AsyncOpenAI) -> None:
    completion = await client.chat.completions.create(model="slipstream", messages=ASK)
    choice = completion.choices[0]
    assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", TEXT, "stop")
    assert completion.usage is not None
    assert completion.usage.total_tokens == 24
    own = completion.model_extra["slipstream"] if completion.model_extra else {}
    assert [citation["index"] for citation in own["citations"]] == [1]
    assert own["supported"] is True


@pytest.mark.parametrize("asked", [True, False, None])
async def test_streamed(client: openai.AsyncOpenAI, asked: bool | None) -> None:
    options: Any = openai.omit if asked is None else {"include_usage": asked}
    stream = await client.chat.completions.create(model="slipstream", messages=ASK, stream=True, stream_options=options)
    chunks = [chunk async for chunk in stream]
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == TEXT
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[0].choices[0].delta.role == "assistant"
    reasons = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices]
    assert reasons == [None] * (len(reasons) - 1) + ["stop"]
    usages = [chunk for chunk in chunks if chunk.usage is not None]
    assert [chunk.choices for chunk in usages] == ([[]] if asked else [])
    assert chunks[-1] is (usages[0] if asked else chunks[-1])


async def test_the_synchronous_client(served: Any) -> None:
    def ask() -> tuple[str | None, str]:
        with openai.OpenAI(base_url=f"{served.url}/v1", api_key="unused") as client:
            whole = client.chat.completions.create(model="small", messages=ASK)
            stream = client.chat.completions.create(model="slipstream", messages=ASK, stream=True)
            return whole.choices[0].message.content, "".join(c.choices[0].delta.content or "" for c in stream)

    assert await anyio.to_thread.run_sync(ask) == (TEXT, TEXT)


async def test_models(client: openai.AsyncOpenAI) -> None:
    ids = [model.id async for model in client.models.list()]
    assert ids == ["slipstream", "scripted", "scripted-encoder"]
    assert (await client.models.retrieve("scripted")).owned_by == "slipstream"
    with pytest.raises(openai.NotFoundError):
        await client.models.retrieve("gpt-4o")


async def test_embeddings(client: openai.AsyncOpenAI) -> None:
    plain = await client.embeddings.create(model="scripted-encoder", input="two words", encoding_format="float")
    packed = await client.embeddings.create(model="scripted-encoder", input=["two words", "one"])
    assert plain.data[0].embedding == [0.5] * 4 == packed.data[0].embedding
    assert (plain.usage.prompt_tokens, packed.usage.prompt_tokens) == (2, 3)
    with pytest.raises(openai.NotFoundError):
        await client.embeddings.create(model="scripted", input="x")
    with pytest.raises(openai.BadRequestError):
        await client.embeddings.create(model="scripted-encoder", input="x", dimensions=5)
    with pytest.raises(openai.BadRequestError):
        await client.embeddings.create(model="scripted-encoder", input=[[1, 2]])


async def test_refusals_have_their_class(client: openai.AsyncOpenAI, service: ScriptedService) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        await client.chat.completions.create(model="gpt-4o", messages=ASK)
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as wrong:
        await client.chat.completions.create(model="slipstream", messages=[])
    assert wrong.value.param == "messages"

    async def refuse(question: Question, call: Call) -> AsyncIterator[Event]:
        raise Overloaded("Too many requests are waiting. Try again in 3 s.", retry_after_s=2.5)
        yield

    service.script = refuse
    for stream in (False, True):
        with pytest.raises(openai.RateLimitError) as busy:
            await client.chat.completions.create(model="slipstream", messages=ASK, stream=stream)
        assert busy.value.response.headers["retry-after"] == "3"
        assert busy.value.response.headers["retry-after-ms"] == "2500"


async def test_a_failure_within_a_stream_is_an_api_error(client: openai.AsyncOpenAI, service: ScriptedService) -> None:
    async def break_off(question: Question, call: Call) -> AsyncIterator[Event]:
        yield Found(Query("q", "en"), (CITATION,))
        yield (Token("Half an "),)
        await anyio.lowlevel.checkpoint()
        raise Unavailable("The engine is down.", code="engine_down")

    service.script = break_off
    seen: list[Any] = []

    async def read() -> None:
        async for chunk in await client.chat.completions.create(model="slipstream", messages=ASK, stream=True):
            seen.append(chunk)

    with pytest.raises(openai.APIError) as broken:
        await read()
    assert broken.value.code == "engine_down"
    assert [chunk.choices[0].delta.content for chunk in seen] == ["", "Half an "]
    assert all(chunk.choices[0].finish_reason is None for chunk in seen)
