"""What every language model promises, run against the fake, the real engine and a remote one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest
from models.remote.fault_server import fault_server

from slipstream.call import Call, Deadline
from slipstream.errors import DeadlineExceeded, InvalidRequest, Unavailable
from slipstream.models.base import LanguageModel
from slipstream.models.fake_llm import FakeLanguageModel
from slipstream.models.llm_http import RemoteLanguageModel
from slipstream.models.llm_local import OpenVinoLanguageModel
from slipstream.models.provision import Provisioner
from slipstream.settings import EngineSettings, ModelsSettings, RemoteEngineSettings
from slipstream.types import Message, Sampling, Token

pytestmark = pytest.mark.anyio

PASSAGE = '<passage id="1">\nGuide › Pools\nThe pool keeps ten connections open. It grows on demand.\n</passage>'
MESSAGES = (Message("system", "Answer from the passages."), Message("user", f"{PASSAGE}\n\nQuestion: How many?"))
SHORT = Sampling(max_tokens=24)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module", params=["fake", "remote", pytest.param("openvino", marks=pytest.mark.models)])
async def model(request: pytest.FixtureRequest) -> AsyncIterator[LanguageModel]:
    async with fault_server(model=FakeLanguageModel(token_s=0.001, slots=4)) as server:
        made: dict[str, Callable[[], LanguageModel]] = {
            "fake": lambda: FakeLanguageModel(token_s=0.001, slots=4),
            "remote": lambda: RemoteLanguageModel(RemoteEngineSettings(base_urls=(server.url,))),
            "openvino": open_vino,
        }
        model = made[request.param]()
        await model.warm_up([MESSAGES[:1]])
        yield model
        await model.close()
    assert not model.healthy()
    with pytest.raises(Unavailable):
        await answer(model)


def open_vino() -> OpenVinoLanguageModel:
    ready = Provisioner(ModelsSettings().cache_dir).ensure("smollm2-135m-instruct", "llm")
    settings = EngineSettings(kv_cache_gib=0.25, max_sequences=4, context_tokens=2_048)
    return OpenVinoLanguageModel(ready.path, name=ready.name, languages=ready.languages, settings=settings)


def new_call(seconds: float | None = None) -> Call:
    return Call("tenant", Deadline.after(seconds))


async def answer(model: LanguageModel, sampling: Sampling = SHORT) -> list[Token]:
    async with model.generate(MESSAGES, sampling, new_call()) as stream:
        return [token async for tokens in stream for token in tokens]


async def settled(model: LanguageModel) -> None:
    """Until nothing runs and no block is held; the test's timeout bounds it."""
    while (load := model.load()).running or load.waiting or load.kv_blocks_used:  # noqa: ASYNC110 (metrics are polled)
        await asyncio.sleep(0.001)


async def test_it_has_a_name_a_context_and_languages(model: LanguageModel) -> None:
    assert model.name
    assert model.context_tokens >= 256
    assert model.languages
    assert model.healthy()


async def test_only_the_last_token_ends_and_carries_the_usage(model: LanguageModel) -> None:
    tokens = await answer(model)
    assert [token.finish_reason for token in tokens[:-1]] == [None] * (len(tokens) - 1)
    usage = tokens[-1].usage
    assert tokens[-1].finish_reason in {"stop", "length"}
    assert usage is not None
    assert usage.prompt_tokens == model.count_tokens(MESSAGES)
    assert usage.completion_tokens == sum(token.count for token in tokens) > 0
    assert all(token.usage is None for token in tokens[:-1])
    assert "".join(token.text for token in tokens)


async def test_the_same_greedy_request_alone_gives_the_same_text(model: LanguageModel) -> None:
    first, second = ["".join(t.text for t in await answer(model)) for _ in range(2)]
    assert first == second


async def test_max_tokens_ends_with_length(model: LanguageModel) -> None:
    tokens = await answer(model, Sampling(max_tokens=2))
    assert tokens[-1].finish_reason == "length"
    assert sum(token.count for token in tokens) == 2


async def test_a_stop_string_ends_the_text_before_it(model: LanguageModel) -> None:
    whole = "".join(token.text for token in await answer(model))
    stop = whole[len(whole) // 2 :][:3]
    tokens = await answer(model, Sampling(max_tokens=24, stop=(stop,)))
    assert "".join(token.text for token in tokens).strip() == whole[: whole.index(stop)].strip()
    assert tokens[-1].finish_reason == "stop"


async def test_a_prompt_that_does_not_fit_is_refused_with_the_counts(model: LanguageModel) -> None:
    endless = (Message("user", "pool " * 6_000),)
    with pytest.raises(InvalidRequest, match=str(model.context_tokens)) as caught:
        async with model.generate(endless, Sampling(), new_call()):
            pass
    assert caught.value.code == "context_length_exceeded"


async def test_an_answer_that_does_not_fit_beside_its_prompt_is_refused(model: LanguageModel) -> None:
    await answer(model)  # a remote model's count is exact once the prompt has been asked
    with pytest.raises(InvalidRequest, match=str(model.count_tokens(MESSAGES))):
        async with model.generate(MESSAGES, Sampling(max_tokens=model.context_tokens), new_call()):
            pass


async def test_leaving_early_frees_the_slot_and_its_blocks(model: LanguageModel) -> None:
    async with model.generate(MESSAGES, Sampling(max_tokens=1_000), new_call()) as stream:
        assert (await anext(stream))[0].count
        busy = model.load()
        assert busy.running == 1
        assert busy.kv_blocks_used is None or busy.kv_blocks_used > 0
    await settled(model)


async def test_cancelling_the_reader_frees_everything(model: LanguageModel) -> None:
    started = asyncio.Event()

    async def read() -> None:
        async with model.generate(MESSAGES, Sampling(max_tokens=1_000), new_call()) as stream:
            async for _ in stream:
                started.set()
                await asyncio.Event().wait()

    task = asyncio.create_task(read())
    await started.wait()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    await settled(model)


async def test_more_requests_than_slots_are_all_answered(model: LanguageModel) -> None:
    answers = await asyncio.gather(*(answer(model, Sampling(max_tokens=8)) for _ in range(12)))
    assert all(tokens[-1].usage is not None for tokens in answers)
    await settled(model)


async def test_a_deadline_ends_the_generation(model: LanguageModel) -> None:
    now = 0.0
    call = Call("tenant", Deadline.after(5, lambda: now))
    async with model.generate(MESSAGES, Sampling(max_tokens=1_000), call) as stream:
        assert (await anext(stream))[0].count
        now = 6.0
        with pytest.raises(DeadlineExceeded):
            await anext(stream)
    await settled(model)


async def test_the_call_records_queue_and_prefill(model: LanguageModel) -> None:
    call = new_call()
    async with model.generate(MESSAGES, Sampling(max_tokens=2), call) as stream:
        assert [token async for token in stream]
    spans = {span.name: span for span in call.spans}
    assert spans["prefill"].detail["prompt_tokens"] == model.count_tokens(MESSAGES)
    assert "cached_tokens" in spans["prefill"].detail
    assert spans["queue"].end_s is not None


async def test_counts_grow_with_the_text_in_both_languages(model: LanguageModel) -> None:
    for short, long in (("pool", "the pool keeps connections"), ("连接池", "数据库连接池的配置")):
        assert 0 < model.count_text_tokens(short) < model.count_text_tokens(long)
        assert model.count_tokens([Message("user", short)]) > model.count_text_tokens(short)
