"""Which language a text is in, as far as the product treats languages differently."""

from __future__ import annotations

import re

from slipstream.types import Language

_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f]")
_KANA_HANGUL = re.compile(r"[\u3040-\u30ff\uac00-\ud7af]")
_WORD = re.compile(r"[^\W\d_\u3400-\u9fff]+")


def language_of(text: str) -> Language:
    """zh when Han characters outnumber Latin words' share of the meaning, en for Latin script.

    One Han character carries about as much as one English word, so they are counted alike; a
    Chinese question that names an English API stays Chinese.
    """
    han = len(_HAN.findall(text))
    if len(_KANA_HANGUL.findall(text)) > han // 4:
        return "other"
    words = _WORD.findall(text)
    if han and han * 2 >= len(words):
        return "zh"
    ascii_words = sum(word.isascii() for word in words)
    return "en" if ascii_words * 2 > len(words) else "other"
