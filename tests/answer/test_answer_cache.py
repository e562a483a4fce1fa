"""The cache around the path: what is served, what is not, what is shared, over fakes and the exact store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from slipstream.build import build
from slipstream.cache.entry import Purge
from slipstream.call import Call
from slipstream.errors import NotFound
from slipstream.models.fake_llm import FakeLanguageModel
from slipstream.service import Slipstream
from slipstream.settings import CacheSettings, DataSettings, ModelsSettings, Settings
from slipstream.types import Answer, CacheDecision, Event, Finished, Found, Question, Sampling, Scope, Turn

pytestmark = pytest.mark.anyio

LEAVE = "Every employee has 28 days of leave a year."
ASKED = "How many days of leave has an employee?"


@dataclass(frozen=True)
class Asked:
    events: Sequence[Event]
    call: Call

    @property
    def answer(self) -> Answer:
        last = self.events[-1]
        assert isinstance(last, Finished)
        return last.answer

    @property
    def decision(self) -> CacheDecision:
        assert self.answer.cache is not None
        return self.answer.cache

    @property
    def status(self) -> tuple[str, str | None]:
        return self.decision.status, self.decision.level

    @property
    def found(self) -> Found:
        first = self.events[0]
        assert isinstance(first, Found)
        return first


@asynccontextmanager
async def started(
    directory: Path, model: FakeLanguageModel | None = None, store: str = "memory", **cache: object
) -> AsyncIterator[Slipstream]:
    service = build(
        Settings(
            data=DataSettings(dir=directory, store=store),  # type: ignore[arg-type]
            models=ModelsSettings(encoder="fake", small="fake"),
            cache=CacheSettings(**{"min_cost_ms": 0.0, **cache}),  # type: ignore[arg-type]
        )
    )
    if model is not None:
        service.parts.models["small"] = model  # type: ignore[index]
    try:
        await service.start()
        yield service
    finally:
        await service.stop()


async def put(
    service: Slipstream, text: str, name: str = "leave.md", tenant: str = "acme", collection: str = "docs"
) -> None:
    await service.ingest(name, text.encode(), service.open_call(tenant, None, None), collection=collection)


async def ask(service: Slipstream, text: str = ASKED, tenant: str = "acme", **options: object) -> Asked:
    call = service.open_call(tenant, None, None)
    scope = options.pop("scope", Scope(tenant))
    async with service.answer(Question(text, scope, **options), call) as events:  # type: ignore[arg-type]
        asked = Asked([event async for event in events], call)
    assert service.parts.cache is not None
    await service.parts.cache.written()
    return asked


async def test_the_same_words_are_served_at_once_and_equal(tmp_path: Path) -> None:
    async with started(tmp_path) as service:
        await put(service, LEAVE)
        first, second = await ask(service), await ask(service, "  How many days of leave has an employee ")
        assert first.status == ("miss", None)
        assert second.status == ("hit", "exact")
        assert second.answer.text == first.answer.text
        assert second.answer.citations == first.answer.citations
        assert second.answer.tier == "cached"
        assert second.found.citations == first.found.citations
        assert {span.name for span in second.call.spans}.isdisjoint({"retrieve", "generate", "admission"})
        streamed = [token.text for event in second.events if isinstance(event, tuple) for token in event]
        assert "".join(streamed) == second.answer.text


async def test_other_words_are_served_after_verification(tmp_path: Path) -> None:
    async with started(tmp_path) as service:
        await put(service, LEAVE)
        first = await ask(service)
        second = await ask(service, "An employee has how many days of leave?")
        assert second.status == ("hit", "semantic"), second.decision
        assert second.answer.text == first.answer.text
        assert [verdict.check for verdict in second.decision.verdicts] == ["form", "evidence", "meaning"]
        assert second.decision.age_s is not None
        third = await ask(service, "An employee has how many days of leave?")
        assert third.status == ("hit", "exact")


@pytest.mark.parametrize(
    ("document", "first", "second"),
    [
        ("Plan Alpha includes plan Beta.", "Does plan Alpha include plan Beta?", "Does plan Beta include plan Alpha?"),
        ("怎么开启自动扣款：点设置。怎么关闭自动扣款：点取消。", "怎么开启自动扣款", "怎么关闭自动扣款"),
        ("To turn on dark mode press D. To turn off dark mode press L.", "turn on dark mode", "turn off dark mode"),
        ("2023年营收五亿，2024年营收六亿。", "2023年营收", "2024年营收"),
        ("The iPhone 15 costs 900, the iPhone 16 costs 1000.", "price of the iPhone 15", "price of the iPhone 16"),
    ],
)
async def test_what_looks_alike_and_means_something_else_misses(
    tmp_path: Path, document: str, first: str, second: str
) -> None:
    async with started(tmp_path, min_similarity=0.2) as service:
        await put(service, document)
        assert (await ask(service, first)).status == ("miss", None)
        other = await ask(service, second)
        assert other.status == ("miss", None)
        assert "form" in {verdict.check for verdict in other.decision.verdicts if not verdict.passed}


async def test_not_found_holds_until_the_answer_is_ingested(tmp_path: Path) -> None:
    async with started(tmp_path) as service:
        nothing = await ask(service)
        assert not nothing.answer.citations
        assert (await ask(service)).status == ("hit", "exact")
        await put(service, "Whales sing.", "elsewhere.md", tenant="other")
        assert (await ask(service)).status == ("hit", "exact")
        await put(service, LEAVE)
        learned = await ask(service)
        assert learned.status == ("miss", None)
        assert learned.answer.citations


@pytest.mark.parametrize("store", ["memory", "qdrant-edge"])
async def test_an_edit_and_a_deletion_are_seen_at_once(tmp_path: Path, store: str) -> None:
    words = ("How many rooms has the flat?", "The flat has how many rooms?")
    async with started(tmp_path, store=store) as service:
        await put(service, "The flat has 3 rooms.", "flat.md")
        assert "3 rooms" in (await ask(service, words[0])).answer.text
        await put(service, "The flat has 2 rooms.", "flat.md")
        for text in (words[1], words[0], words[1]):
            assert "2 rooms" in (await ask(service, text)).answer.text
        await service.delete_document("flat.md", service.open_call("acme", None, None), collection="docs")
        for text in words:
            gone = await ask(service, text)
            assert not gone.answer.citations
            assert "rooms" not in gone.answer.text


async def test_a_better_passage_ends_an_answer(tmp_path: Path) -> None:
    async with started(tmp_path) as service:
        await put(service, "Some days of leave are unpaid for an employee.", "old.md")
        first = await ask(service)
        assert (await ask(service)).status == ("hit", "exact")
        await put(service, f"{ASKED} {LEAVE}", "new.md")
        second = await ask(service)
        assert second.status == ("miss", None)
        assert second.answer.text != first.answer.text
        assert "evidence" in {verdict.check for verdict in second.decision.verdicts if not verdict.passed}


async def test_a_change_elsewhere_costs_a_check_and_no_answer(tmp_path: Path) -> None:
    async with started(tmp_path) as service:
        await put(service, LEAVE)
        await ask(service)
        await put(service, "Whales sing at night.", "whales.md")
        checked = await ask(service)
        assert checked.status == ("hit", "exact")
        assert "retrieve" in {span.name for span in checked.call.spans}
        again = await ask(service)
        assert "retrieve" not in {span.name for span in again.call.spans}


async def test_answers_survive_a_restart_and_are_checked_then(tmp_path: Path) -> None:
    async with started(tmp_path, store="qdrant-edge") as service:
        await put(service, LEAVE)
        text = (await ask(service)).answer.text
    async with started(tmp_path, store="qdrant-edge") as service:
        again = await ask(service)
        assert again.status == ("hit", "exact")
        assert again.answer.text == text
        assert again.answer.citations[0].passage.text == LEAVE
        assert "retrieve" in {span.name for span in again.call.spans}


async def test_tenants_share_nothing(tmp_path: Path) -> None:
    async with started(tmp_path) as service:
        for tenant, days in (("a", 28), ("b", 30)):
            await put(service, f"Every employee has {days} days of leave a year.", tenant=tenant)
        for _ in range(2):
            for tenant, days in (("a", 28), ("b", 30)):
                asked = await ask(service, tenant=tenant)
                assert f"{days} days" in asked.answer.text
                assert {c.passage.tenant for c in (*asked.answer.citations, *asked.found.citations)} == {tenant}
        assert await service.purge_cache(Purge(), service.open_call("a", None, None)) > 0
        assert (await ask(service, tenant="a")).status == ("miss", None)
        assert (await ask(service, tenant="b")).status == ("hit", "exact")


@pytest.mark.parametrize(
    "options",
    [
        {"instructions": "Answer like a pirate."},
        {"scope": Scope("acme", ("docs",))},
        {"history": (Turn("user", "Tell me about holidays at work"),)},
        {"sampling": Sampling(max_tokens=7)},
        {"route": "extractive"},
    ],
)
async def test_another_scope_is_another_answer(tmp_path: Path, options: dict[str, object]) -> None:
    async with started(tmp_path) as service:
        await put(service, LEAVE)
        await ask(service)
        assert (await ask(service, ASKED, "acme", **options)).status == ("miss", None)


async def test_off_and_refresh_and_age_are_obeyed(tmp_path: Path) -> None:
    async with started(tmp_path) as service:
        await put(service, LEAVE)
        assert (await ask(service, cache="off")).answer.cache is None
        assert (await ask(service)).status == ("miss", None)
        assert (await ask(service, cache="refresh")).status == ("refresh", None)
        assert (await ask(service, cache_max_age_s=0.0)).status == ("miss", None)
        assert (await ask(service)).status == ("hit", "exact")


async def test_what_is_cut_short_or_drawn_at_random_is_not_kept(tmp_path: Path) -> None:
    async with started(tmp_path) as service:
        await put(service, LEAVE)
        for sampling in (Sampling(max_tokens=1, length_given=True), Sampling(temperature=1.5)):
            assert (await ask(service, sampling=sampling)).status == ("miss", None)
            assert (await ask(service, sampling=sampling)).status == ("miss", None)


async def test_one_who_leaves_early_leaves_nothing_behind(tmp_path: Path) -> None:
    async with started(tmp_path, FakeLanguageModel(token_s=0.005)) as service:
        await put(service, LEAVE)
        call = service.open_call("acme", None, None)
        async with service.answer(Question(ASKED, Scope("acme")), call) as events:
            async for event in events:
                if isinstance(event, tuple):
                    break
        assert (await ask(service)).status == ("miss", None)


async def test_equal_questions_at_once_cost_one_generation(tmp_path: Path) -> None:
    model = FakeLanguageModel()
    async with started(tmp_path, model) as service:
        await put(service, LEAVE)
        asked = await asyncio.gather(*(ask(service) for _ in range(64)))
        assert len({a.answer.text for a in asked}) == 1
        assert sorted(str(a.decision.level) for a in asked).count("flight") == 63
        generated = [span for a in asked for span in a.call.spans if span.name == "generate"]
        assert len(generated) == 1
        assert all(isinstance(a.events[0], Found) for a in asked)


async def test_other_words_join_an_answer_that_is_being_written(tmp_path: Path) -> None:
    async with started(tmp_path, FakeLanguageModel(token_s=0.02)) as service:
        await put(service, LEAVE)
        texts = [ASKED, "An employee has how many days of leave?"] * 4
        asked = await asyncio.gather(*(ask(service, text) for text in texts))
        assert sum(span.name == "generate" for a in asked for span in a.call.spans) == 1
        assert len({a.answer.text for a in asked}) == 1


async def test_feedback_drops_a_bad_answer(tmp_path: Path) -> None:
    async with started(tmp_path) as service:
        await put(service, LEAVE)
        first = await ask(service)
        call = service.open_call("acme", None, None)
        with pytest.raises(NotFound, match="remembered"):
            await service.feedback(first.call.request_id, "bad", "", service.open_call("other", None, None))
        assert not await service.feedback(first.call.request_id, "good", "", call)
        assert (await ask(service)).status == ("hit", "exact")
        assert await service.feedback(first.call.request_id, "bad", "it is 30", call)
        assert (await ask(service)).status == ("miss", None)


async def test_purging_by_document_and_tag(tmp_path: Path) -> None:
    async with started(tmp_path) as service:
        await put(service, LEAVE)
        await put(service, "Whales sing at night.", "whales.md")
        call = service.open_call("acme", None, None)
        await ask(service, cache_tag="hr")
        await ask(service, "Do whales sing at night?")
        assert await service.purge_cache(Purge(document_id="nothing.md"), call) == 0
        await service.purge_cache(Purge(tag="hr"), call)
        assert (await ask(service)).status == ("miss", None)
        assert (await ask(service, "Do whales sing at night?")).status == ("hit", "exact")
        assert await service.purge_cache(Purge(document_id="whales.md"), call) >= 1
        assert (await ask(service, "Do whales sing at night?")).status == ("miss", None)


async def test_a_redis_that_is_down_makes_misses(tmp_path: Path) -> None:
    pytest.importorskip("redis")
    async with started(tmp_path, backend="redis", redis_url="redis://127.0.0.1:1/0") as service:
        await put(service, LEAVE)
        first = await ask(service)
        assert first.answer.citations
        assert [verdict.check for verdict in first.decision.verdicts] == ["store"]
        assert (await ask(service)).status == ("hit", "exact")  # held ready in memory
        assert b'slipstream_cache_failures_total{doing="lookup"}' in service.metrics.render()


async def test_hits_are_counted(tmp_path: Path) -> None:
    async with started(tmp_path) as service:
        await put(service, LEAVE)
        await ask(service)
        await ask(service)
        text = service.metrics.render().decode()
        assert 'slipstream_cache_requests_total{level="exact",status="hit"} 1.0' in text
        assert 'slipstream_cache_requests_total{level="none",status="miss"} 1.0' in text
        assert isinstance((await ask(service)).events[1], tuple)
        info = await service.cache_info(service.open_call("acme", None, None))
        assert info.entries == 1
