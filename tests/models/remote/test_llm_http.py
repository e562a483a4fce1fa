"""A remote model over servers that fail: what the caller notices, and what nobody does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from models.remote.fault_server import Behaviour, FaultServer, fault_server
from pydantic import SecretStr

from slipstream.call import Call, Deadline
from slipstream.errors import ConfigError, DeadlineExceeded, InvalidRequest, Overloaded, SlipstreamError, Unavailable
from slipstream.models.fake_llm import FakeLanguageModel
from slipstream.models.llm_http import RemoteLanguageModel
from slipstream.settings import RemoteEngineSettings
from slipstream.types import Message, Sampling, Token, Usage

pytestmark = pytest.mark.anyio

PASSAGE = "连接池保持十个连接。 The pool keeps ten connections open, and grows on demand 🙂. "
MESSAGES = (
    Message("system", "Answer from the passages."),
    Message("user", f'<passage id="1">\n{PASSAGE}\n</passage>\n\n' + "Question: How many connections? " * 12),
)
WORDS = 8


@asynccontextmanager
async def tier(
    *scripts: Sequence[Behaviour], model: FakeLanguageModel | None = None, **options: Any
) -> AsyncIterator[tuple[RemoteLanguageModel, list[FaultServer]]]:
    """One server a script, and the model over all of them, warmed up by then."""
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(fault_server(model=model)) for _ in scripts]
        settings = {"health_s": 600, "api_key": SecretStr("sk-test"), **options}
        remote = RemoteLanguageModel(RemoteEngineSettings(base_urls=tuple(s.url for s in servers), **settings))
        await remote.warm_up()
        stack.push_async_callback(remote.close)
        for server, script in zip(servers, scripts, strict=True):
            server.script.extend(script)
        yield remote, servers


async def answer(
    model: RemoteLanguageModel,
    sampling: Sampling | None = None,
    call: Call | None = None,
    messages: Sequence[Message] = MESSAGES,
) -> list[Token]:
    got: list[Token] = []
    await read(model, got, sampling, call, messages)
    return got


async def read(
    model: RemoteLanguageModel,
    into: list[Token],
    sampling: Sampling | None = None,
    call: Call | None = None,
    messages: Sequence[Message] = MESSAGES,
) -> None:
    """What came before an error is in `into`."""
    call = call or Call("tenant", Deadline.after(20))
    async with model.generate(messages, sampling or Sampling(max_tokens=WORDS), call) as stream:
        async for tokens in stream:
            into += tokens


def text(tokens: Sequence[Token]) -> str:
    return "".join(token.text for token in tokens)


@pytest.fixture
async def whole() -> str:
    async with tier(["well"]) as (model, _):
        said = text(await answer(model))
    assert len(said) >= WORDS
    return said


def asked(servers: Sequence[FaultServer]) -> list[int]:
    return [len(server.requests) for server in servers]


def order(model: RemoteLanguageModel, servers: Sequence[FaultServer]) -> list[FaultServer]:
    """The servers as the prompt prefers them."""
    by_url = {server.url: server for server in servers}
    first = model._pool.choose(prefix_of())
    assert first is not None
    return sorted(servers, key=lambda server: server.url != by_url[first.url].url)


def prefix_of() -> bytes | None:
    from slipstream.models.remote.pool import prefix_key

    return prefix_key(MESSAGES, "tenant")


@pytest.mark.parametrize("how", ["comments", "split", "crlf", "together"])
async def test_however_the_bytes_come_the_answer_is_the_same(how: Behaviour, whole: str) -> None:
    async with tier([how]) as (model, _):
        tokens = await answer(model)
    assert text(tokens) == whole
    assert tokens[-1].finish_reason == "stop"
    assert tokens[-1].usage is not None
    assert tokens[-1].usage.completion_tokens == WORDS


async def test_events_that_came_together_are_handed_on_together() -> None:
    sampling, call = Sampling(max_tokens=WORDS), Call("tenant", Deadline.after(20))
    async with tier(["together"]) as (model, _), model.generate(MESSAGES, sampling, call) as stream:
        sizes = [len(batch) async for batch in stream]
    assert sizes == [WORDS, 1]


@pytest.mark.parametrize("how", ["no_usage", "death_after_finish"])
async def test_an_answer_without_usage_is_whole_and_counted_here(how: Behaviour, whole: str) -> None:
    async with tier([how]) as (model, _):
        tokens = await answer(model)
        assert tokens[-1].usage == Usage(model.count_tokens(MESSAGES), WORDS)
    assert text(tokens) == whole
    assert tokens[-1].finish_reason == "stop"


@pytest.mark.parametrize(
    "how", ["stall", "death", "eof", "not_json", "wrong_json", "error_event", "abort", "no_finish"]
)
async def test_a_failure_within_an_answer_is_an_error_and_never_an_end(how: Behaviour) -> None:
    async with tier([how], ["well"], idle_s=0.2) as (model, servers):
        order(model, servers)[0].script.clear()
        order(model, servers)[1].script.clear()
        order(model, servers)[0].script.append(how)
        got: list[Token] = []
        with pytest.raises(Unavailable) as caught:
            await read(model, got)
        assert text(got)
        assert all(token.finish_reason is None for token in got)
        assert sum(asked(servers)) == 1
        assert "sk-test" not in caught.value.message
        assert model.load().running == model.load().waiting == 0


@pytest.mark.parametrize(
    "how", ["death_first", "half_open", "busy", "busy_unsaid", "broken", "wrong_key", "html", "held_first"]
)
async def test_a_failure_before_the_first_token_goes_unnoticed(how: Behaviour, whole: str) -> None:
    async with tier([], [], first_token_s=0.3) as (model, servers):
        first, second = order(model, servers)
        first.script.extend([how, how])
        assert text(await answer(model)) == whole
        assert len(second.requests) == 1
        assert model.figures().failovers == 1


async def test_a_dead_server_is_left_alone_and_comes_back(whole: str) -> None:
    async with tier([], []) as (model, servers):
        first, _ = order(model, servers)
        first.script.append("broken")
        replica = next(r for r in model.replicas if r.url == first.url)
        replica.breaker._clock = lambda: 0.0
        for _ in range(3):
            first.script.extend(["broken"])
            assert text(await answer(model)) == whole
        assert not replica.available
        before = len(first.requests)
        assert text(await answer(model)) == whole
        assert len(first.requests) == before
        first.script.clear()
        replica.breaker.well()
        assert text(await answer(model)) == whole
        assert len(first.requests) == before + 1
        assert replica.breaker.state == "closed"


async def test_a_busy_server_is_asked_again_when_it_said(whole: str) -> None:
    async with tier(["busy"]) as (model, servers):
        servers[0].retry_after = "0.05"
        assert text(await answer(model)) == whole
        assert asked(servers) == [2]


async def test_a_wait_beyond_the_deadline_is_not_begun() -> None:
    async with tier(["busy"]) as (model, servers):
        servers[0].retry_after = "30"
        with pytest.raises(Overloaded) as caught:
            await answer(model)
        assert caught.value.retry_after_s == pytest.approx(30, abs=1)
        with pytest.raises(Overloaded):
            await answer(model)
        assert asked(servers) == [1]


async def test_a_wrong_request_is_not_sent_twice() -> None:
    async with tier(["too_long"], ["too_long"]) as (model, servers):
        with pytest.raises(InvalidRequest) as caught:
            await answer(model)
        assert caught.value.code == "context_length_exceeded"
        assert sum(asked(servers)) == 1
        assert {replica.breaker.state for replica in model.replicas} == {"closed"}


async def test_the_key_is_sent_and_never_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "slipstream"):
        async with tier(["wrong_key"]) as (model, servers):
            with pytest.raises(Unavailable) as caught:
                await answer(model)
            assert servers[0].keys[-1] == "Bearer sk-test"
    assert caught.value.code == "engine_refused"
    assert "sk-test" not in caught.value.message
    assert "sk-test" not in caplog.text


async def test_equal_prefixes_go_to_one_server_and_others_spread() -> None:
    async with tier([], [], []) as (model, servers):
        for _ in range(6):
            await answer(model)
        assert sorted(asked(servers)) == [0, 0, 6]
        for number in range(24):
            await answer(model, messages=(MESSAGES[0], Message("user", f"{number} " * 200)))
        assert min(asked(servers)) >= 1


async def test_short_prompts_go_to_the_least_loaded() -> None:
    short = (Message("user", "How many?"),)
    async with tier([], []) as (model, servers):
        for _ in range(6):
            await answer(model, messages=short)
        assert asked(servers) == [3, 3]


async def test_load_is_bounded_for_a_prefix_that_everybody_asks() -> None:
    async with tier(["held_first"] * 8, ["held_first"] * 8) as (model, servers):
        running = [asyncio.create_task(answer(model)) for _ in range(8)]
        while model.load().waiting < 8 or sum(asked(servers)) < 8:  # noqa: ASYNC110 (counts are polled)
            await asyncio.sleep(0.001)
        assert min(asked(servers)) >= 3
        for server in servers:
            server.release.set()
        await asyncio.gather(*running)
        assert model.load().running == model.load().waiting == 0


async def test_a_late_first_token_is_asked_of_another(whole: str) -> None:
    async with tier([], [], hedge_ms=30) as (model, servers):
        first, second = order(model, servers)
        first.script.append("held_first")
        assert text(await answer(model)) == whole
        assert [len(first.requests), len(second.requests)] == [1, 1]
        async with asyncio.timeout(5):
            await first.left.wait()
        figures = model.figures()
        assert (figures.hedges, figures.hedges_won) == (1, 1)
        assert {r.in_flight for r in figures.replicas} == {0}


async def test_hedges_are_few_when_everything_is_slow() -> None:
    async with tier(["held_first"] * 20, ["held_first"] * 20, hedge_ms=1) as (model, servers):
        running = [asyncio.create_task(answer(model)) for _ in range(12)]
        while sum(asked(servers)) < 12:  # noqa: ASYNC110 (counts are polled)
            await asyncio.sleep(0.001)
        while not model.figures().hedges:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        for server in servers:
            server.release.set()
        await asyncio.gather(*running)
        assert model.figures().hedges <= 2


async def test_leaving_closes_the_stream_at_the_server() -> None:
    async with tier(["stall"]) as (model, [server]):
        async with model.generate(MESSAGES, Sampling(max_tokens=WORDS), Call("t", Deadline.after(20))) as stream:
            assert await anext(stream)
        async with asyncio.timeout(5):
            await server.left.wait()
        assert model.load().running == 0
        assert model.replicas[0].breaker.state == "closed"


async def test_cancelling_before_the_first_token_closes_it_too() -> None:
    async with tier(["held_first"]) as (model, [server]):
        task = asyncio.create_task(answer(model))
        await server.arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(5):
            await server.left.wait()
        assert model.load().waiting == 0


@pytest.mark.parametrize("how", ["half_open", "held_first", "stall"])
async def test_the_deadline_ends_a_silent_server(how: Behaviour) -> None:
    async with tier([how], []) as (model, servers):
        for server in servers:
            server.script.clear()
        order(model, servers)[0].script.append(how)
        with pytest.raises(DeadlineExceeded):
            await answer(model, call=Call("tenant", Deadline.after(0.2)))
        assert {replica.breaker.state for replica in model.replicas} == {"closed"}


async def test_an_answer_gets_as_many_tokens_as_there_is_time_for() -> None:
    async with tier([], model=FakeLanguageModel(tokens=500)) as (model, [server]):
        model._pace.learn(first_token_s=1.0, rest_s=49.5, tokens=100)
        call = Call("tenant", Deadline.after(21, lambda: 0.0))
        tokens = await answer(model, Sampling(max_tokens=400), call)
        assert server.requests[-1]["max_tokens"] == 32
        assert tokens[-1].finish_reason == "length"
        assert call.degraded == ["answer_length"]
        assert model._pace.token_s < 0.5


async def test_full_servers_are_not_asked() -> None:
    async with tier(["held_first"], max_concurrency=1) as (model, [server]):
        first = asyncio.create_task(answer(model))
        await server.arrived.wait()
        with pytest.raises(Overloaded):
            await answer(model)
        server.release.set()
        await first
        assert len(server.requests) == 1


async def test_an_idle_connection_that_the_server_closed_is_no_failure(whole: str) -> None:
    async with tier([]) as (model, [server]):
        await answer(model)
        server.script.append("death_first")
        assert text(await answer(model)) == whole
        assert len(server.requests) == 3
        assert model.figures().failovers == model.figures().replicas[0].failures == 0


async def test_a_connection_serves_one_answer_after_another() -> None:
    async with tier([]) as (model, [server]):
        await answer(model)
        before = server.connections
        for _ in range(4):
            await answer(model)
        assert server.connections == before


async def test_no_server_at_all_is_said_with_its_address() -> None:
    async with fault_server() as server:
        url = server.url
    model = RemoteLanguageModel(RemoteEngineSettings(base_urls=(url,), start_s=0.01))
    with pytest.raises(Unavailable, match=url.partition("//")[2].partition("/")[0]):
        await model.warm_up()
    await model.close()


async def test_a_model_that_the_server_does_not_serve_is_named() -> None:
    async with fault_server() as server:
        model = RemoteLanguageModel(RemoteEngineSettings(base_urls=(server.url,), model="other"))
        with pytest.raises(ConfigError, match="'other'; it lists fake"):
            await model.warm_up()
        await model.close()


async def test_all_servers_down_is_no_reason_to_restart_us() -> None:
    async with tier([]) as (model, [server]):
        server.script.extend(["broken"] * 9)
        for _ in range(4):
            with pytest.raises(SlipstreamError):
                await answer(model)
        assert model.replicas[0].breaker.state == "open"
        assert model.healthy()


async def test_cached_tokens_are_read_back() -> None:
    async with tier([]) as (model, [server]):
        server.cached_tokens = 33
        call = Call("tenant", Deadline.after(20))
        tokens = await answer(model, call=call)
        assert tokens[-1].usage is not None
        assert tokens[-1].usage.cached_tokens == 33
        prefill = next(span for span in call.spans if span.name == "prefill")
        assert prefill.detail["cached_tokens"] == 33
        assert prefill.detail["replica"] == server.url.partition("//")[2].removesuffix("/v1")


async def test_what_is_sent_says_what_was_asked() -> None:
    sampling = Sampling(WORDS, 0.5, 0.9, ("\n\n",), 7, json_schema='{"type":"object"}')
    async with tier([], extra_body={"chat_template_kwargs": {"enable_thinking": False}}) as (model, [server]):
        await answer(model, sampling)
        other = Call("other", Deadline.after(20))
        await answer(model, sampling, other)
    first, second = server.requests
    salt = first.pop("cache_salt")
    assert salt
    assert second["cache_salt"] != salt
    assert first == {
        "model": "fake",
        "messages": [{"role": message.role, "content": message.text} for message in MESSAGES],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": WORDS,
        "stop": ["\n\n"],
        "seed": 7,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": True},
        },
        "chat_template_kwargs": {"enable_thinking": False},
    }
