"""Generated token ids → text, incrementally: whole characters only, stop strings held back and removed."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

_SPACE_MARK = "▁".encode()


class Vocabulary:
    """The bytes that each token id stands for; control tokens stand for none."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        """`pieces[id]` as the tokenizer stores them: raw bytes, or SentencePiece with ▁ and <0x0A> spelling."""
        self._pieces = [_plain(piece) for piece in pieces] if b"<0x0A>" in pieces else list(pieces)
        self.longest_piece_bytes = max(map(len, self._pieces), default=1)

    def bytes_of(self, ids: Sequence[int]) -> bytes:
        pieces = self._pieces
        return b"".join([pieces[i] for i in ids if i < len(pieces)])


class TextStream:
    """The text of one generation, as far as it is certain.

    A character split over tokens waits for its last byte; a suffix that may be the beginning of a stop
    string waits until it is or is not. Each token costs its own bytes, never the text so far.
    """

    def __init__(self, vocabulary: Vocabulary, stop: Sequence[str] = ()) -> None:
        self._vocabulary = vocabulary
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._stop = tuple(stop)
        self._held = ""
        self.stopped = False
        """True once a stop string was met; what follows is dropped."""

    def push(self, ids: Sequence[int]) -> str:
        """Takes newly generated ids and returns the text that has become certain."""
        if self.stopped:
            return ""
        text = self._held + self._utf8.decode(self._vocabulary.bytes_of(ids))
        if not self._stop:
            return text
        found = min((at for stop in self._stop if (at := text.find(stop)) >= 0), default=-1)
        if found >= 0:
            self.stopped, self._held = True, ""
            return text[:found]
        certain = len(text) - self._undecided(text)
        self._held = text[certain:]
        return text[:certain]

    def finish(self) -> str:
        """The text held back; bytes of a character that was never completed are dropped."""
        text, self._held = self._held, ""
        return text

    def _undecided(self, text: str) -> int:
        """Length of the longest suffix that begins a stop string."""
        for length in range(min(len(text), max(map(len, self._stop)) - 1), 0, -1):
            suffix = text[-length:]
            if any(stop.startswith(suffix) for stop in self._stop):
                return length
        return 0


def _plain(piece: bytes) -> bytes:
    if len(piece) == 6 and piece.startswith(b"<0x") and piece.endswith(b">"):
        return bytes([int(piece[3:5], 16)])
    return piece.replace(_SPACE_MARK, b" ")
