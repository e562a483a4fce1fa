"""What is refused is refused before evidence is shown, and what fails in retrieval fails once."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from answer.path import new_call, path, question

from slipstream.errors import Bug, DeadlineExceeded, InvalidRequest
from slipstream.models.fake_encoder import FakeEncoder
from slipstream.models.fake_llm import FakeLanguageModel
from slipstream.settings import RetrievalSettings
from slipstream.stores.memory import MemoryStore
from slipstream.types import Event, Finished, Hit, Message, Sampling, Scope, Vector

pytestmark = pytest.mark.anyio

ROOMS = "The flat in Harbour Street has three rooms. It was painted in 2021. The rent is 900 euros."


async def events_before_refusal(asked: str, **options: object) -> list[Event]:
    seen: list[Event] = []
    async with path({"small": FakeLanguageModel(context_tokens=700)}) as here:
        await here.add(ROOMS)

        async def ask() -> None:
            async for event in here.pipeline.answer(question(asked, **options), new_call()):
                seen.append(event)

        with pytest.raises(InvalidRequest) as refused:
            await ask()
    assert refused.value.code == "context_length_exceeded"
    return seen


async def test_a_question_beyond_the_context_shows_no_evidence_first() -> None:
    assert await events_before_refusal("How many rooms has the flat? " * 200) == []


async def test_nor_do_an_answer_or_instructions_beyond_it() -> None:
    given = Sampling(max_tokens=10_000, length_given=True)
    assert await events_before_refusal("How many rooms?", sampling=given) == []
    assert await events_before_refusal("How many rooms?", instructions="Be brief. " * 400) == []


class Witness(FakeLanguageModel):
    """Remembers which threads tokenised."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[str] = set()

    def count_tokens(self, messages: Sequence[Message]) -> int:
        self.threads.add(threading.current_thread().name)
        return super().count_tokens(messages)


@pytest.mark.parametrize(("words", "thread"), [(1, "MainThread"), (1_000, "slipstream-test-text_0")])
async def test_long_instructions_are_tokenised_off_the_loop(words: int, thread: str) -> None:
    model = Witness()
    async with path({"small": model}) as here:
        await here.add(ROOMS)
        asking = question("How many rooms?", instructions="brief " * words)
        passages = await here.pipeline.find(asking, new_call())
        route = here.pipeline.route(asking, passages, new_call())
        model.threads.clear()
        await here.pipeline.assemble(asking, passages, route, new_call())
    assert model.threads == {thread}


class Failing(MemoryStore):
    """The dense leg fails while the sparse one is under way, which fails when it is cancelled."""

    def __init__(self) -> None:
        super().__init__(dimensions=FakeEncoder().dimensions)
        self._sparse = asyncio.Event()

    async def search_dense(self, vector: Vector, scope: Scope, limit: int) -> list[Hit]:
        await self._sparse.wait()
        raise Bug("dense")

    async def search_sparse(self, text: str, scope: Scope, limit: int) -> list[Hit]:
        self._sparse.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise Bug("sparse") from None
        return []


async def fail_in_both_legs() -> None:
    """A function of its own, so that nothing keeps the error and what it refers to."""
    async with path(store=Failing()) as here:
        with pytest.raises(Bug, match="dense"):
            await here.pipeline.find(question("How many rooms?"), new_call())


async def test_no_failure_of_a_leg_is_left_behind() -> None:
    unheard: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
    await fail_in_both_legs()
    gc.collect()
    assert unheard == []


class Stuck(MemoryStore):
    def __init__(self) -> None:
        super().__init__(dimensions=FakeEncoder().dimensions)

    async def search_dense(self, vector: Vector, scope: Scope, limit: int) -> list[Hit]:
        await asyncio.Event().wait()
        return []


async def test_a_search_that_hangs_ends_at_the_deadline() -> None:
    async with path(store=Stuck()) as here, asyncio.timeout(30):
        with pytest.raises(DeadlineExceeded):
            await here.pipeline.find(question("How many rooms?"), new_call(0.05))


async def test_the_finishing_stage_is_over_when_the_answer_is_handed_on() -> None:
    async with path() as here:
        await here.add(ROOMS)
        call = new_call()
        async for event in here.pipeline.answer(question("How many rooms has the flat?"), call):
            if isinstance(event, Finished):
                ended = {span.name: span.end_s for span in call.spans}
                assert ended["finish"] is not None


async def test_as_many_passages_as_asked_for_come_out_of_both_legs() -> None:
    few = RetrievalSettings(dense_limit=5, sparse_limit=5, rerank_limit=5)
    async with path(retrieval=few) as here:
        await here.add(*(f"Room {n} has {n} windows." for n in range(30)))
        asking = question("How many windows?", passages=20, candidates=20)
        assert len((await here.pipeline.find(asking, new_call())).items) == 20
