"""Notices when a model says the same thing over and over, so that nobody waits for it."""

from __future__ import annotations

_CHECK_EVERY_CHARACTERS = 192
_LONGEST_UNIT = 120
_REPEATS = 4
_SHORTEST_LOOP = 32
"""Characters: a row of dashes or a few line breaks is no loop yet."""


class LoopGuard:
    """Feed it a stream's text; it says whether the end of it is one unit repeated."""

    def __init__(self) -> None:
        self._tail = ""
        self._unchecked: list[str] = []
        self._characters = 0

    def looping(self, text: str) -> bool:
        """True when the text so far ends in at least four repeats of something of at most 120 characters."""
        self._unchecked.append(text)
        self._characters += len(text)
        if self._characters < _CHECK_EVERY_CHARACTERS:
            return False
        self._tail = (self._tail + "".join(self._unchecked))[-_LONGEST_UNIT * _REPEATS :]
        self._unchecked.clear()
        self._characters = 0
        return any(self._repeats(length) for length in range(1, len(self._tail) // _REPEATS + 1))

    def _repeats(self, length: int) -> bool:
        times = max(_REPEATS, -(-_SHORTEST_LOOP // length))
        unit = self._tail[-length:]
        return len(self._tail) >= times * length and self._tail.endswith(unit * times)
