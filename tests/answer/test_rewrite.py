"""A follow-up retrieves like its stand-alone form; a stand-alone question is left alone."""

from __future__ import annotations

import pytest

from slipstream.answer.rewrite import Rewriter, is_follow_up, normalise
from slipstream.call import Call, Deadline
from slipstream.types import Query, Question, Scope, Turn


def rewrite(text: str, *asked: str) -> Query:
    history = tuple(turn for t in asked for turn in (Turn("user", t), Turn("assistant", "…")))
    call = Call("t", Deadline.after(None))
    return Rewriter()(Question(text, Scope("t"), history), call)


@pytest.mark.parametrize(
    ("topic", "follow_up"),
    [
        ("How do I install the command line tool?", "And on Windows?"),
        ("How do I install the command line tool?", "What about Docker?"),
        ("Who wrote the annual report of 2023?", "When did she publish it?"),
        ("如何安装命令行工具？", "那在Windows上呢？"),
        ("如何开启自动扣款功能？", "怎么关闭它？"),
        ("2023年的营收是多少？", "为什么下降了？"),
    ],
)
def test_a_follow_up_carries_its_topic(topic: str, follow_up: str) -> None:
    query = rewrite(follow_up, topic)
    assert query.rewritten
    assert normalise(topic) in query.text
    assert normalise(follow_up) in query.text


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
    assert "follow-up" in str(call.spans[0].detail["reason"])


def test_short_is_a_follow_up_in_both_languages() -> None:
    assert is_follow_up("Port number?", "en")
    assert is_follow_up("端口号？", "zh")
