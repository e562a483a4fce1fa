"""Events come whole out of a byte stream, wherever it is cut."""

from __future__ import annotations

import pytest

from slipstream.models.remote.events import MAX_EVENT_BYTES, EventReader
from slipstream.models.remote.faults import Fault

STREAM = (
    '\ufeff: hello\nevent: message\ndata: {"a": "连接池🙂"}\n\n'
    "id: 7\r\ndata:no space\r\n\r\n"
    "data: two\ndata: lines\n\n"
    "retry: 10\n\n\n"
    "data: [DONE]\n\n"
).encode()
EVENTS = ['{"a": "连接池🙂"}'.encode(), b"no space", b"two\nlines", b"[DONE]"]


def read(pieces: list[bytes]) -> list[bytes]:
    reader = EventReader()
    return [event for piece in pieces for event in reader.feed(piece)] + reader.finish()


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 64, len(STREAM)])
def test_wherever_the_stream_is_cut(size: int) -> None:
    assert read([STREAM[i : i + size] for i in range(0, len(STREAM), size)]) == EVENTS


def test_carriage_returns_alone_end_lines_too() -> None:
    whole = b"data: a\r\rdata: b\r\r"
    assert read([whole]) == read([whole[i : i + 1] for i in range(len(whole))]) == [b"a", b"b"]


def test_an_end_without_a_blank_line_loses_nothing() -> None:
    assert read([b"data: a\n\ndata: [DONE]"]) == [b"a", b"[DONE]"]


def test_an_endless_event_is_refused() -> None:
    with pytest.raises(Fault):
        read([b"data: " + b"x" * 65_536] * (MAX_EVENT_BYTES // 65_536 + 2))
