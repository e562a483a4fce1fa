"""Text without markup that says nothing: for models that read it and for quotations, never for offsets."""

from __future__ import annotations

import re

_TAG = re.compile(
    r"</?(?:a|abbr|b|br|center|code|div|em|font|hr|i|img|kbd|p|small|span|strong|sub|sup|u)\b[^<>]*>", re.IGNORECASE
)
_ANCHOR = re.compile(r"[ \t]*\{[ \t]*#[\w-]+[ \t]*\}")
_LINK = re.compile(
    r"(?<![A-Za-z0-9_\])])!?\[([^\[\]]*)\]\((?:[^()\s]|\([^()]*\))*(?:[ \t]+\"[^\"]*\")?\)(?:\{[^}]*\})?"
)
_EMPHASIS = re.compile(r"(?<![A-Za-z0-9_*])\*{1,3}(?=\S)([^*\n]+?)(?<=\S)\*{1,3}(?![A-Za-z0-9_*])")


def plain(text: str) -> str:
    """Drops presentational HTML tags, heading anchors, emphasis and link targets; code and wording stay."""
    text = _ANCHOR.sub("", _TAG.sub("", text))
    return _EMPHASIS.sub(r"\1", _LINK.sub(r"\1", text))
