"""Other wordings bring candidates in, in one batch and at the same time, and only when they are wanted."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from answer.path import TENANT, new_call, path, question

from slipstream.answer.confidence import UNCALIBRATED, Confidence
from slipstream.answer.expand import Expander
from slipstream.answer.fuse import fuse_legs, reciprocal_rank_fusion
from slipstream.answer.retrieve import Retriever
from slipstream.answer.variants import other_wordings
from slipstream.answer.wording import Wording
from slipstream.call import Call, Deadline
from slipstream.models.base import LanguageModel
from slipstream.models.fake_encoder import FakeEncoder
from slipstream.models.fake_llm import FakeLanguageModel
from slipstream.settings import RetrievalSettings
from slipstream.stores.memory import MemoryStore
from slipstream.text.language import language_of
from slipstream.types import Encoding, Hit, Leg, Query, Question, Scope, SearchOptions, Tier, Turn


def asks(text: str, expand: str | None = None) -> Question:
    return question(text, search=SearchOptions(expand=expand))  # type: ignore[arg-type]


class Counting:
    """Encodes and remembers what came together."""

    def __init__(self) -> None:
        self.batches: list[tuple[str, ...]] = []
        self._encoder = FakeEncoder()

    async def one(self, text: str) -> Encoding:
        return (await self.many([text]))[0]

    async def many(self, texts: Sequence[str]) -> Sequence[Encoding]:
        self.batches.append(tuple(texts))
        return await self._encoder.encode(texts, "query")


def expander(
    encode: Counting,
    store: MemoryStore | None = None,
    models: dict[Tier, LanguageModel] | None = None,
    confidence: Confidence = UNCALIBRATED,
    settings: RetrievalSettings | None = None,
) -> Expander:
    settings = settings or RetrievalSettings()
    store = store or MemoryStore(dimensions=FakeEncoder().dimensions)
    return Expander(
        Retriever(store, encode.one, settings), encode.many, Wording(models or {}, 1.0), settings, confidence
    )


# --- wordings by rules ---


@pytest.mark.parametrize(
    ("text", "has"),
    [
        ("How do I reset the password, and how long is a session valid?", "How do I reset the password"),
        ("How do I reset the password, and how long is a session valid?", "how long is a session valid"),
        ("What is the maximum size of an upload?", "maximum size of an upload"),
        ("如何重置门户密码，会话多久过期？", "如何重置门户密码"),
        ("请问上传文件的大小上限是多少？", "上传文件的大小上限是"),
    ],
)
def test_parts_and_bare_subjects(text: str, has: str) -> None:
    found = other_wordings(Query(text, language_of(text)))
    assert has in found
    assert text not in found
    assert 1 <= len(found) <= 4


@pytest.mark.parametrize("text", ["password", "密码", "E1234-5", ""])
def test_a_bare_query_has_no_other_wording(text: str) -> None:
    assert other_wordings(Query(text, language_of(text))) == ()


# --- fusing any number of legs ---


def test_two_legs_fuse_as_ever() -> None:
    dense, sparse = [Hit(i, 1.0) for i in "abc"], [Hit(i, 2.0 - n) for n, i in enumerate("cbd")]
    legs = [Leg("dense", "q", dense), Leg("sparse", "q", sparse)]
    assert fuse_legs(legs, (0.7, 1.3), 17) == reciprocal_rank_fusion(
        dense, sparse, k=17, dense_weight=0.7, sparse_weight=1.3
    )


def test_variants_add_candidates_and_ranks_are_the_best_ones() -> None:
    legs = [Leg("dense", "q", [Hit("a", 1.0)]), Leg("dense", "v", [Hit("b", 1.0), Hit("a", 0.5)])]
    fused = fuse_legs(legs, (1.0, 0.5), 60)
    assert [(c.passage_id, c.dense_rank, c.sparse_rank) for c in fused] == [("a", 1, None), ("b", 1, None)]
    assert fused[0].score == pytest.approx(1 / 61 + 0.5 / 62)


# --- when ---


@pytest.mark.anyio
async def test_by_default_one_text_is_encoded_and_no_variant_searched() -> None:
    encode, call = Counting(), new_call()
    found = await expander(encode)(Query("How do I reset the password?", "en"), asks("x"), call)
    assert encode.batches == [("How do I reset the password?",)]
    assert len(found.legs) == 2
    assert {span.name for span in call.spans} == {"retrieve", "encode", "dense", "sparse"}


@pytest.mark.anyio
async def test_variants_are_encoded_in_one_batch() -> None:
    encode, call = Counting(), new_call()
    text = "How do I reset the password, and how long is a session valid?"
    found = await expander(encode)(Query(text, "en"), asks(text, "multi"), call)
    assert [len(batch) for batch in encode.batches] == [1, 4]
    assert [leg.kind for leg in found.legs] == ["dense", "sparse"] * 5
    [span] = [span for span in call.spans if span.name == "expand"]
    assert (span.detail["how"], span.detail["variants"]) == ("multi", 4)


@pytest.mark.anyio
async def test_both_halves_of_a_double_question_are_found() -> None:
    texts = ["Reset the password under Settings.", "A session is valid for eight hours."]
    filler = [f"How do I, and how long is the thing number {n}?" for n in range(30)]
    async with path(models={}, retrieval=RetrievalSettings(dense_limit=4, sparse_limit=4)) as here:
        await here.add(*texts, *filler)
        text = "How do I reset the password, and how long is a session valid?"

        async def ids(expand: str) -> set[str]:
            query = here.pipeline.rewrite(asks(text), new_call())
            found = await here.pipeline.retrieve(query, asks(text, expand), new_call())
            return {candidate.passage_id for candidate in found.items}

        assert await ids("none") < await ids("multi")


@pytest.mark.anyio
@pytest.mark.parametrize(("bias", "again"), [(-5.0, True), (5.0, False)])
async def test_auto_searches_again_only_when_the_first_search_is_weak(bias: float, again: bool) -> None:
    encode, call = Counting(), new_call()
    store = MemoryStore(dimensions=FakeEncoder().dimensions)
    async with path(store=store) as here:
        await here.add("Reset the password under Settings.")
    text = "How do I reset the password, and how long is a session valid?"
    expand = expander(encode, store, confidence=Confidence(bias))
    await expand(Query(text, "en"), asks(text, "auto"), call)
    assert (len(encode.batches) == 2) == again
    assert any(span.name == "confidence" for span in call.spans)


@pytest.mark.anyio
async def test_the_setting_holds_unless_the_request_says_otherwise() -> None:
    text = "How do I reset the password, and how long is a session valid?"
    for asked, batches in ((None, 2), ("none", 1)):
        encode = Counting()
        await expander(encode, settings=RetrievalSettings(expand="multi"))(
            Query(text, "en"), asks(text, asked), new_call()
        )
        assert len(encode.batches) == batches


# --- with a model ---


@pytest.mark.anyio
async def test_hyde_searches_with_what_the_model_imagines() -> None:
    encode = Counting()
    models: dict[Tier, LanguageModel] = {"small": FakeLanguageModel()}
    found = await expander(encode, models=models)(Query("Where is the pump?", "en"), asks("x", "hyde"), new_call())
    assert [len(batch) for batch in encode.batches] == [1, 1]
    imagined = encode.batches[1][0]
    assert imagined
    assert {leg.query for leg in found.legs} == {"Where is the pump?", imagined}


@pytest.mark.anyio
@pytest.mark.parametrize(("models", "seconds"), [({}, None), ({"small": FakeLanguageModel()}, 1.0)])
async def test_without_model_or_time_it_goes_without_and_says_so(
    models: dict[Tier, LanguageModel], seconds: float | None
) -> None:
    encode, call = Counting(), Call(TENANT, Deadline.after(seconds))
    found = await expander(encode, models=models)(Query("Where is the pump?", "en"), asks("x", "hyde"), call)
    assert len(found.legs) == 2
    assert call.degraded == ["expansion_model"]


@pytest.mark.anyio
async def test_a_follow_up_the_rules_cannot_tell_is_condensed_when_configured() -> None:
    models: dict[Tier, LanguageModel] = {"small": FakeLanguageModel()}
    history = (Turn("user", "How much does the Falcon cost?"), Turn("assistant", "900 euros."))
    asked = Question("How long is the warranty?", Scope(TENANT), history)
    for condense, certain in ((True, False), (False, False), (True, True)):
        encode = Counting()
        expand = expander(encode, models=models, settings=RetrievalSettings(condense=condense))
        query = Query("Falcon How long is the warranty?", "en", rewritten=True, certain=certain)
        found = await expand(query, asked, new_call())
        assert (found.query.reason == "follow-up: condensed by the model") == (condense and not certain)
        assert encode.batches == [(found.query.text,)]
