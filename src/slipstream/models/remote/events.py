"""Bytes of a server-sent event stream → the data of its events, however the bytes are cut."""

from __future__ import annotations

from slipstream.models.remote.faults import Fault, garbled

MAX_EVENT_BYTES = 4 << 20


class EventReader:
    """Feed it what the socket gave; it gives the data of every event that is complete (WHATWG HTML, § 9.2.6).

    Comments, ids and retry times are dropped. Bytes stay bytes, so that a character cut in two is whole again
    before anybody decodes it.
    """

    __slots__ = ("_data", "_fresh", "_rest")

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._fresh = True

    def feed(self, data: bytes) -> list[bytes]:
        """Raises Fault when an event is longer than any server's."""
        buffer = self._rest + data if self._rest else data
        if self._fresh and len(buffer) >= len(b"\xef\xbb\xbf"):
            self._fresh = False
            buffer = buffer.removeprefix(b"\xef\xbb\xbf")
        held = b""
        if b"\r" in buffer:
            if buffer.endswith(b"\r"):  # a line feed may follow in the next segment
                buffer, held = buffer[:-1], b"\r"
            buffer = buffer.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = buffer.split(b"\n")
        self._rest = lines.pop() + held
        events = [event for line in lines if (event := self._line(line)) is not None]
        if len(self._rest) + sum(map(len, self._data)) > MAX_EVENT_BYTES:
            raise self._endless()
        return events

    def finish(self) -> list[bytes]:
        """What an end without a blank line leaves: some servers close right behind their last event."""
        events = self.feed(b"\n\n") if self._rest or self._data else []
        self._data.clear()
        return events

    def _line(self, line: bytes) -> bytes | None:
        if line.startswith(b"data:"):
            self._data.append(line[6:] if line[5:6] == b" " else line[5:])
        elif not line and self._data:
            event = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            self._data.clear()
            return event
        return None

    def _endless(self) -> Fault:
        return garbled(f"an event of more than {MAX_EVENT_BYTES} bytes")
