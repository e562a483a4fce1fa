"""Chat requests → questions, and the refusals that name the field at fault."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slipstream.errors import Forbidden, InvalidRequest, NotFound, SlipstreamError
from slipstream.server.fake import FakeCard
from slipstream.server.openai_types import ChatRequest
from slipstream.server.questions import MAX_QUESTION_CHARACTERS, question_of
from slipstream.server.validation import parse
from slipstream.settings import AnswerSettings
from slipstream.types import Match, Question, Turn

MODELS = (FakeCard("tiny", "small"), FakeCard("encoder", None))
ASK = [{"role": "user", "content": "Why?"}]


def read(tenant: str | None = None, **body: Any) -> Question:
    request = parse(ChatRequest, json.dumps({"messages": ASK, **body}).encode())
    return question_of(request, tenant, MODELS, AnswerSettings())


def test_the_conversation_is_taken_apart() -> None:
    question = read(
        messages=[
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": "Be kind."},
            {"role": "user", "content": "What is it?"},
            {"role": "assistant", "content": "A cat."},
            {"role": "assistant", "content": None, "tool_calls": []},
            {"role": "user", "content": [{"type": "text", "text": "它"}, {"type": "text", "text": "多大？"}]},
        ]
    )
    assert question.text == "它\n多大？"
    assert question.instructions == "Be brief.\n\nBe kind."
    assert question.history == (Turn("user", "What is it?"), Turn("assistant", "A cat."))


def test_sampling_and_scope() -> None:
    question = read(
        max_tokens=5,
        max_completion_tokens=7,
        temperature=1,
        stop="END",
        seed=3,
        response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "array"}}},
        slipstream={"collections": ["a", "b"], "filters": {"type": "pdf"}, "route": "extractive", "passages": 2},
    )
    assert question.sampling.max_tokens == 7
    assert question.sampling.temperature == 1.0
    assert question.sampling.stop == ("END",)
    assert question.sampling.json_schema == '{"type":"array"}'
    assert question.scope.tenant == "default"
    assert question.scope.collections == ("a", "b")
    assert question.scope.filter == Match("type", ("pdf",))
    assert (question.route, question.passages) == ("extractive", 2)


def test_unknown_fields_and_nulls_are_ignored() -> None:
    question = read(
        brand_new=True, user="u", store=None, temperature=None, stop=None, n=1, slipstream=None, reasoning_effort="low"
    )
    assert question.sampling.temperature == AnswerSettings().temperature


@pytest.mark.parametrize(("model", "route"), [("slipstream", None), ("small", "small"), ("tiny", "small")])
def test_model_names_a_tier(model: str, route: str | None) -> None:
    assert read(model=model).route == route


@pytest.mark.parametrize("model", ["gpt-4o", "encoder", ""])
def test_an_unknown_model_is_not_found(model: str) -> None:
    with pytest.raises(NotFound) as caught:
        read(model=model)
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": "Why?"}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": "  \n"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": []}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": "a\0b"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": "x" * (MAX_QUESTION_CHARACTERS + 1)}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": 1}]}]}, "messages[0].content[0].text"),
        ({"messages": [{"role": "robot", "content": "hi"}]}, "messages[0].role"),
        ({"messages": [*ASK, {"role": "assistant", "content": "hi"}]}, "messages[1].role"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": 3}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"stream": "yes"}, "stream"),
        ({"stop": 5}, "stop"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "stop"),
        ({"stop": ""}, "stop"),
        ({"n": 2}, "n"),
        ({"tools": [{"type": "function"}]}, "tools"),
        ({"logprobs": True}, "logprobs"),
        ({"logit_bias": {"50256": -100}}, "logit_bias"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, "tool_choice"),
        ({"function_call": {"name": "f"}}, "function_call"),
        ({"seed": 10**30}, "seed"),
        ({"max_tokens": 10**400}, "max_tokens"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema"),
        ({"slipstream": {"tenants": "x"}}, "slipstream.tenants"),
        ({"slipstream": {"tenant": "a/b"}}, "slipstream.tenant"),
        ({"slipstream": {"tenant": ""}}, "slipstream.tenant"),
        ({"slipstream": {"route": "cached"}}, "slipstream.route"),
        ({"slipstream": {"filters": {"time": {"gte": []}}}}, "slipstream.filters.time.gte"),
        ({"slipstream": {"deadline_ms": 0}}, "slipstream.deadline_ms"),
    ],
)
def test_a_fault_names_its_field(body: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(**body)
    assert caught.value.param == param


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"messages":[{"role":"user","content":"\\ud800"}]}', b"\xff"])
def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(SlipstreamError) as caught:
        parse(ChatRequest, body)
    assert caught.value.status == 400


def test_empty_tools_are_no_tools() -> None:
    assert read(tools=[], functions=None, tool_choice="none", logit_bias={}).text == "Why?"
    assert read(tool_choice="auto", function_call="auto").text == "Why?"


def test_a_bound_key_keeps_to_its_tenant() -> None:
    assert read("acme").scope.tenant == "acme"
    assert read("acme", slipstream={"tenant": "acme"}).scope.tenant == "acme"
    with pytest.raises(Forbidden):
        read("acme", slipstream={"tenant": "other"})
