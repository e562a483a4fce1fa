"""Citation markers in streamed text: [n] kept when it names evidence, dropped when it names nothing."""

from __future__ import annotations

import re
from collections.abc import Collection

_MARKER = re.compile(r"\s?[\[【]\s*(\d{1,3}(?:\s*[,，、]\s*\d{1,3})*)\s*[\]】]")
_OPEN = re.compile(r"\s?(?:[\[【][\d\s,，、]{0,16})?$")
_SPECIAL = re.compile(r"[\[【`]|\s$")
"""Text without any of these can neither hold nor begin a marker, nor open code."""
_NUMBER = re.compile(r"\d+")
_IDENTIFIER = re.compile(r"[A-Za-z0-9_)\]]")


class CitationFilter:
    """Passes text through, holding back only what might be the start of a marker.

    Markers are normalised to [n]; those that are not `allowed` vanish with the space before them. Code is left alone:
    what stands between backticks, and an index such as `items[0]` that names no evidence. `cited` lists the
    numbers that were kept, by first appearance.
    """

    def __init__(self, allowed: Collection[int]) -> None:
        self._allowed = allowed
        self._held = ""
        self._in_code = False
        self._before = ""
        self.cited: list[int] = []

    def lets_pass(self, text: str) -> bool:
        """Takes text and says True when it goes through as it is; otherwise it wants to be fed, nothing is taken."""
        if self._held or not text or _SPECIAL.search(text):
            return False
        self._before = text[-1]
        return True

    def feed(self, text: str) -> str:
        if self.lets_pass(text):
            return text
        text = self._held + text
        opening = _OPEN.search(text)
        cut = opening.start() if opening else len(text)
        self._held = text[cut:]
        return self._resolved(text[:cut])

    def flush(self) -> str:
        text, self._held = self._held, ""
        return self._resolved(text)

    def _resolved(self, text: str) -> str:
        out, done = [], 0
        for marker in _MARKER.finditer(text):
            out.append(self._plain(text[done : marker.start()]))
            out.append(self._marker(marker))
            done = marker.end()
        out.append(self._plain(text[done:]))
        return "".join(out)

    def _plain(self, text: str) -> str:
        if text:
            self._in_code ^= text.count("`") % 2 == 1
            self._before = text[-1]
        return text

    def _marker(self, marker: re.Match[str]) -> str:
        kept = [n for n in map(int, _NUMBER.findall(marker[1])) if n in self._allowed]
        is_index = _IDENTIFIER.match(self._before) and marker[0][0] == "[" and not kept
        if self._in_code or is_index:
            self._before = marker[0][-1]
            return marker[0]
        self.cited.extend(n for n in kept if n not in self.cited)
        space = marker[0][0] if marker[0][0].isspace() and kept else ""
        return space + "".join(f"[{n}]" for n in kept)
