"""Token counts: exact with a tokenizer, learnt without one, and rather too high than too low."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from slipstream.errors import ConfigError
from slipstream.models.remote.counting import TokenCounter
from slipstream.types import Message

ENGLISH = "The pool keeps a number of connections open so that nobody waits for a new one to be made. "
CHINESE = "连接池会保持一定数量的连接处于打开状态，这样请求就不必等待新连接的建立。"


def true_count(text: str) -> int:
    """A vocabulary with four letters or one and a half Chinese characters a token."""
    wide = sum(ord(character) > 0x2E80 for character in text)
    return round((len(text) - wide) / 4 + wide / 1.5)


def prompt(number: int, text: str) -> tuple[Message, ...]:
    return (Message("system", "Answer from the passages."), Message("user", f"{number} {text * (1 + number % 7)}"))


def test_estimates_come_close_to_what_the_server_counts() -> None:
    counter = TokenCounter()
    for number in range(60):
        messages = prompt(number, ENGLISH if number % 2 else CHINESE)
        counter.learn(messages, sum(true_count(m.text) + 5 for m in messages) + 3)
    for text in (ENGLISH, CHINESE, ENGLISH + CHINESE):
        messages = prompt(997, text)
        true = sum(true_count(m.text) + 5 for m in messages) + 3
        assert true * 0.97 <= counter.messages(messages) <= true * 1.35


def test_before_anything_is_known_estimates_are_high_in_both_languages() -> None:
    counter = TokenCounter()
    for text in (ENGLISH * 5, CHINESE * 5):
        assert true_count(text) <= counter.text(text) <= 3 * true_count(text)


def test_short_prompts_teach_nothing_wrong_of_long_ones() -> None:
    counter = TokenCounter()
    counter.calibrate(ENGLISH, true_count(ENGLISH))
    for number in range(30):
        short = (Message("system", "You answer from the passages."), Message("user", f"{number}?"))
        counter.learn(short, sum(true_count(message.text) for message in short) + 4)
    long = (Message("user", ENGLISH * 12),)
    assert true_count(ENGLISH * 12) <= counter.messages(long) <= 1.4 * true_count(ENGLISH * 12)


def test_the_servers_own_count_is_kept() -> None:
    counter = TokenCounter()
    messages = prompt(1, CHINESE)
    counter.learn(messages, 77)
    assert counter.messages(messages) == 77


def test_what_is_kept_is_bounded() -> None:
    counter = TokenCounter()
    for number in range(2_000):
        counter.learn((Message("user", str(number)),), 9)
    assert len(counter._known) <= 512


def test_a_tokenizer_counts_text_exactly(tmp_path: Path) -> None:
    tokenizer = Tokenizer(models.WordLevel({"<unk>": 0, "pool": 1}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    for path in (tmp_path, tmp_path / "tokenizer.json"):
        counter = TokenCounter(path)
        assert counter.text("pool of ten") == 3
        counter.learn((Message("user", "pool of ten"),), 3 + 40)
        assert counter.messages((Message("user", "a pool"),)) == 2 + 40


def test_a_missing_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=str(tmp_path)):
        TokenCounter(tmp_path)
