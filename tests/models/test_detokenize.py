"""The incremental detokeniser: whole characters only, stop strings never shown."""

from __future__ import annotations

import random

import pytest

from slipstream.models.detokenize import TextStream, Vocabulary

TEXTS = ("plain ascii", "数据库连接池配置", "emoji 👩‍👩‍👧 and flags 🇨🇳", "mixed 中a文b😀", "é\u0301ñ")


def byte_vocabulary() -> Vocabulary:
    return Vocabulary([bytes([i]) for i in range(256)])


def ids(text: str) -> list[int]:
    return list(text.encode())


@pytest.mark.parametrize("text", TEXTS)
def test_one_byte_tokens_come_out_as_whole_characters(text: str) -> None:
    stream = TextStream(byte_vocabulary())
    pieces = [stream.push([i]) for i in ids(text)]
    assert "".join(pieces) == text
    assert not any("\ufffd" in piece for piece in pieces)
    assert stream.finish() == ""


@pytest.mark.parametrize("text", TEXTS)
def test_any_grouping_gives_the_same_text(text: str) -> None:
    dice = random.Random(7)
    for _ in range(50):
        stream, rest, out = TextStream(byte_vocabulary()), ids(text), ""
        while rest:
            taken = dice.randint(1, 5)
            out += stream.push(rest[:taken])
            rest = rest[taken:]
        assert out + stream.finish() == text


def test_a_character_cut_by_the_length_limit_is_dropped() -> None:
    stream = TextStream(byte_vocabulary())
    assert stream.push(ids("好好")[:-1]) == "好"
    assert stream.finish() == ""


def test_bytes_that_are_no_text_become_replacement_characters() -> None:
    stream = TextStream(byte_vocabulary())
    assert stream.push([0xFF, ord("a")]) == "\ufffda"


def test_control_tokens_and_ids_beyond_the_vocabulary_say_nothing() -> None:
    stream = TextStream(Vocabulary([b"a", b""]))
    assert stream.push([0, 1, 99, 0]) == "aa"


def test_sentencepiece_spelling_is_read() -> None:
    stream = TextStream(Vocabulary([b"<0x0A>", "▁hello".encode(), b"<0xE5>", b"<0xA5>", b"<0xBD>"]))
    assert stream.push([1, 0, 2, 3]) == " hello\n"
    assert stream.push([4]) == "好"


def test_a_stop_string_over_several_tokens_is_never_shown() -> None:
    stream = TextStream(byte_vocabulary(), ("END",))
    shown = "".join(stream.push([i]) for i in ids("an EN END and more"))
    assert shown == "an EN "
    assert stream.stopped
    assert stream.push(ids("x")) == ""
    assert stream.finish() == ""


def test_a_beginning_that_is_no_stop_string_after_all_is_shown() -> None:
    stream = TextStream(byte_vocabulary(), ("\n\n", "停止。"))
    assert stream.push(ids("one\n")) == "one"
    assert stream.push(ids("two停")) == "\ntwo"
    assert stream.push(ids("车")) == "停车"
    assert stream.push(ids("停止")) == ""
    assert stream.finish() == "停止"
    assert not stream.stopped


def test_the_earliest_of_several_stop_strings_wins() -> None:
    stream = TextStream(byte_vocabulary(), ("late", "b"))
    assert stream.push(ids("a b late")) == "a "


def test_random_stop_strings_agree_with_the_whole_text() -> None:
    dice = random.Random(3)
    for _ in range(300):
        text = "".join(dice.choices("ab你", k=20))
        stops = tuple("".join(dice.choices("ab你", k=dice.randint(1, 4))) for _ in range(2))
        stream, shown = TextStream(byte_vocabulary(), stops), ""
        for i in ids(text):
            shown += stream.push([i])
            assert not any(stop in shown for stop in stops)
        shown += stream.finish()
        ends = [text.find(stop) + len(stop) for stop in stops if stop in text]
        if not ends:
            assert shown == text
        else:
            seen = text[: min(ends)]
            assert shown == seen[: min(seen.find(stop) for stop in stops if stop in seen)]
