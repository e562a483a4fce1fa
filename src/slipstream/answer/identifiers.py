"""Finds the identifiers that a question names (`E1234-5`, `getUserName`, `max_size`, `2.3.5`) in other texts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_CHUNK = re.compile(r"[A-Za-z0-9_]+(?:[._\-/:]{1,2}[A-Za-z0-9_]+)*")
_LIKE_CODE = re.compile(r"(?=.*\d)(?=.*[A-Za-z]).{3,}|.*[a-z0-9]_[a-zA-Z0-9].*|.*[a-z][A-Z].*|\w+(?:::\w+)+")
_VERSION = re.compile(r"\d+(?:\.\d+){2,}")
_QUANTITY = re.compile(
    r"\d+(?:[.,/:-]\d+)*(?:st|nd|rd|th|s|am|pm|min|h|[kcm]?m|k?g|[kmg]b|x)?(?:-[a-z]+)*", re.IGNORECASE
)
"""`20th-century`, `1980s`, `5km`: letters and digits together, and no name of anything."""
_AT_MOST = 8
"""A pasted log names hundreds; looking for each of them in every candidate would cost more than it tells."""


@dataclass(frozen=True, slots=True)
class Identifiers:
    """What a question names exactly; falsy when it names nothing."""

    patterns: tuple[re.Pattern[str], ...]

    def __bool__(self) -> bool:
        return bool(self.patterns)

    def share_in(self, text: str) -> float:
        """How many of them the text holds as they stand, 0 to 1; case does not count."""
        return sum(pattern.search(text) is not None for pattern in self.patterns) / max(1, len(self.patterns))


@lru_cache(maxsize=1_024)
def identifiers(question: str) -> Identifiers:
    """Those that the question names, the first few. Asked for twice on the path of a question."""
    named = dict.fromkeys(chunk.lower() for chunk in _CHUNK.findall(question) if _is_identifier(chunk))
    return Identifiers(
        tuple(
            re.compile(rf"(?<![A-Za-z0-9_]){re.escape(name)}(?![A-Za-z0-9_])", re.IGNORECASE)
            for name in list(named)[:_AT_MOST]
        )
    )


def _is_identifier(chunk: str) -> bool:
    if _VERSION.fullmatch(chunk):
        return True
    return _LIKE_CODE.fullmatch(chunk) is not None and not _QUANTITY.fullmatch(chunk)
