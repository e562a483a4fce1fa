"""Lists of opposites and of synonyms, as the lexicons write them, made ready for looking up."""

from __future__ import annotations

from collections.abc import Callable, Mapping


def axes(listed: str, canonical: Callable[[str], str] = str) -> Mapping[str, tuple[tuple[str, int], ...]]:
    """`hot warm|cold;…` → word → its axes with the end it stands at."""
    found: dict[str, dict[str, int]] = {}
    for axis in listed.split(";"):
        name = axis.strip()
        for end, words in zip((1, -1), name.split("|"), strict=True):
            for word in words.split():
                found.setdefault(word, {})[name] = end
                found.setdefault(canonical(word), {})[name] = end
    return {word: tuple(ends.items()) for word, ends in found.items()}


def folded(listed: str, canonical: Callable[[str], str] = str) -> Mapping[str, str]:
    """`a b c;d e` → word → the first word of its group.

    A word of several groups belongs to its first: joining groups would make strangers synonyms.
    """
    head: dict[str, str] = {}
    for group in listed.split(";"):
        words = [canonical(word) for word in group.split()]
        for word in words:
            head.setdefault(word, head.get(words[0], words[0]))
    return head
