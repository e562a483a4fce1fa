"""A follow-up retrieves like its stand-alone form; a stand-alone question is left alone."""

from __future__ import annotations

import pytest
from answer.conversations import CONVERSATIONS, CORPUS, Conversation
from answer.path import TENANT, Path, path

from slipstream.answer.rewrite import Rewriter, is_follow_up, normalise
from slipstream.call import Call, Deadline
from slipstream.text.language import language_of
from slipstream.types import Query, Question, Scope, Turn


def rewrite(text: str, *asked: str) -> Query:
    history = tuple(turn for t in asked for turn in (Turn("user", t), Turn("assistant", "…")))
    call = Call("t", Deadline.after(None))
    return Rewriter()(Question(text, Scope("t"), history), call)


async def first_found(path: Path, question: Question) -> str:
    return (await path.pipeline.find(question, Call(TENANT, Deadline.after(None)))).items[0].passage.text


@pytest.mark.anyio
@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda c: f"{c.asked[0]}-{c.follow_up}")
async def test_a_follow_up_finds_what_its_stand_alone_form_finds(conversation: Conversation) -> None:
    history = tuple(
        turn for asked in conversation.asked for turn in (Turn("user", asked), Turn("assistant", conversation.answer))
    )
    async with path() as here:
        await here.add(*CORPUS)
        found = await first_found(here, Question(conversation.follow_up, Scope(TENANT), history))
        assert found == await first_found(here, Question(conversation.means, Scope(TENANT)))


@pytest.mark.anyio
async def test_the_conversations_would_fail_without_their_history() -> None:
    assert len(CONVERSATIONS) >= 60
    assert sum(language_of(c.follow_up) == "zh" for c in CONVERSATIONS) * 2 >= len(CONVERSATIONS) - 1
    async with path() as here:
        await here.add(*CORPUS)
        lost = [
            c
            for c in CONVERSATIONS
            if await first_found(here, Question(c.follow_up, Scope(TENANT)))
            != await first_found(here, Question(c.means, Scope(TENANT)))
        ]
    assert len(lost) >= len(CONVERSATIONS) // 3


@pytest.mark.parametrize(
    ("earlier", "question"),
    [
        ("How do I install the command line tool?", "Which Python versions are supported by release three?"),
        ("如何安装命令行工具？", "数据库连接池的最大连接数默认是多少？"),
    ],
)
def test_a_change_of_subject_drops_the_topic(earlier: str, question: str) -> None:
    query = rewrite(question, earlier)
    assert not query.rewritten
    assert query.text == normalise(question)


def test_a_chain_of_follow_ups_reaches_back_to_the_topic() -> None:
    query = rewrite("And on Linux?", "How do I install the command line tool?", "And on Windows?")
    assert "install the command line tool" in query.text
    assert "Windows" not in query.text


def test_without_history_nothing_is_carried() -> None:
    assert not rewrite("And on Windows?").rewritten


@pytest.mark.parametrize(
    ("raw", "clean"),
    [("  What\n is\tthis\u3000? ", "What is this ?"), ("Ｐｙｔｈｏｎ　３", "Python 3"), ("a\x00b\x07", "ab")],
)
def test_normalise(raw: str, clean: str) -> None:
    assert normalise(raw) == clean


def test_every_decision_is_on_the_trace() -> None:
    call = Call("t", Deadline.after(None))
    Rewriter()(Question("And then?", Scope("t"), (Turn("user", "How do I deploy the service?"),)), call)
    assert "follow-up (ellipsis)" in str(call.spans[0].detail["reason"])


@pytest.mark.parametrize(
    "text",
    [
        "Is it possible to change the delivery address of an order?",
        "What is the policy that applies to interns?",
        "Is there a limit on the size of uploads?",
        "What happens to those who miss the deadline of this year?",
        "How long does it take to ship an order to Norway?",
        "If my laptop breaks, who repairs it?",
        "Can I cancel the subscription order and get it refunded?",
        "如果忘记了登录密码怎么办？",
        "为什么天空在白天是蓝色的？",
        "员工应该如何申请其他类型的假期？",
        "如果电脑主板坏了，它里面的数据怎么恢复？",
        "这个月的报销截止日期是哪天？",
    ],
)
def test_words_that_look_like_pronouns_and_are_none(text: str) -> None:
    assert not is_follow_up(normalise(text), language_of(text))


def test_where_the_rules_cannot_tell_the_query_says_so() -> None:
    assert not rewrite("How long is the warranty?", "How much does the Falcon cost?").certain
    assert rewrite("And the warranty?", "How much does the Falcon cost?").certain


def test_a_topic_named_long_ago_is_none() -> None:
    asked = ["How do I install the command line tool?", *("Why?" for _ in range(12))]
    query = rewrite("And on Windows?", *asked)
    assert "install" not in query.text


def test_short_is_a_follow_up_in_both_languages() -> None:
    assert is_follow_up("Port number?", "en")
    assert is_follow_up("端口号？", "zh")
