"""Document → spans of about the aimed length that keep sentences, code, tables and sections together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeAlias

from slipstream.ingest.document import Block, Document
from slipstream.text.sentences import sentences

CountTokens: TypeAlias = Callable[[Sequence[str]], list[int]]

_WINDOW_BLOCKS = 1_024
"""Blocks cut up at once: bounds memory, and makes batches worth the tokenizer's while."""
_SLACK = 1.2
"""A section this much over the aimed length stays whole rather than falling into two small halves."""
_WORDY = re.compile(r"\w")
_LINE = re.compile(r"[^\n]*\S[^\n]*")


@dataclass(frozen=True, slots=True)
class ChunkLimits:
    """In tokens of the encoder."""

    target: int
    cap: int
    """Never exceeded, headings included."""
    overlap: int = 0


@dataclass(frozen=True, slots=True)
class Chunk:
    """The span of a passage in the document's text."""

    start: int
    end: int
    headings: tuple[str, ...]
    page: int | None
    tokens: int
    """About: the sum over its parts."""


@dataclass(frozen=True, slots=True)
class _Atom:
    """What is never cut: a short block, a sentence, a line of code."""

    start: int
    end: int
    tokens: int
    page: int | None
    leads: bool
    """Headings and lead-in sentences belong with what follows."""


@dataclass(slots=True)
class _Section:
    headings: tuple[str, ...]
    cap: int
    atoms: list[_Atom] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        return sum(atom.tokens for atom in self.atoms)


def chunk(document: Document, count_tokens: CountTokens, limits: ChunkLimits) -> Iterator[Chunk]:
    """Yields chunks in order; lazily, window by window. Every word of every block is in one of them."""
    for at in range(0, len(document.blocks), _WINDOW_BLOCKS):
        window = document.blocks[at : at + _WINDOW_BLOCKS]
        sections = _merge_tiny(_sections(document.text, window, count_tokens, limits), limits.target)
        for section in sections:
            yield from _pack(section, limits)


def _sections(text: str, blocks: Sequence[Block], count_tokens: CountTokens, limits: ChunkLimits) -> list[_Section]:
    """Atoms by section. Tokens are counted once, in batches; chunks are then packed by their sums."""
    paths = list(dict.fromkeys(block.headings for block in blocks))
    context = dict(zip(paths, count_tokens([" > ".join(path) for path in paths]), strict=True))
    caps = {path: max(limits.cap // 2, limits.cap - tokens) for path, tokens in context.items()}
    counts = count_tokens([text[block.start : block.end] for block in blocks])
    spans: list[tuple[Block, int, int]] = []
    for block, tokens in zip(blocks, counts, strict=True):
        if not _WORDY.search(text, block.start, block.end):
            continue
        whole = tokens <= (limits.target * _SLACK if block.kind == "text" else caps[block.headings])
        parts = [(block.start, block.end)] if whole and tokens <= caps[block.headings] else _parts(text, block)
        spans.extend((block, start, end) for start, end in parts)
    atoms = _fit(text, spans, count_tokens, caps)
    return [
        _Section(path, caps[path], [atom for _, atom in group])
        for path, group in groupby(atoms, key=lambda pair: pair[0].headings)
    ]


def _parts(text: str, block: Block) -> list[tuple[int, int]]:
    body = text[block.start : block.end]
    by_line = block.kind in {"code", "table"}
    found = [match.span() for match in _LINE.finditer(body)] if by_line else sentences(body)
    return [(block.start + start, block.start + end) for start, end in found]


def _fit(
    text: str, spans: list[tuple[Block, int, int]], count_tokens: CountTokens, caps: dict[tuple[str, ...], int]
) -> list[tuple[Block, _Atom]]:
    """Counts the spans, halving those over the cap until none is: base64, minified code."""
    while True:
        counts = count_tokens([text[start:end] for _, start, end in spans])
        if all(tokens <= caps[block.headings] for (block, _, _), tokens in zip(spans, counts, strict=True)):
            break
        halved: list[tuple[Block, int, int]] = []
        for (block, start, end), tokens in zip(spans, counts, strict=True):
            middle = (start + end) // 2 if tokens > caps[block.headings] and end - start > 1 else end
            halved.append((block, start, middle))
            if middle < end:
                halved.append((block, middle, end))
        if len(halved) == len(spans):
            break
        spans = halved
    return [
        (block, _Atom(start, end, tokens, block.page, block.kind == "heading" or text[end - 1] in ":："))
        for (block, start, end), tokens in zip(spans, counts, strict=True)
    ]


def _merge_tiny(sections: list[_Section], target: int) -> list[_Section]:
    """Joins a tiny section with its neighbour when they are siblings, or parent and child."""
    merged: list[_Section] = []
    for section in sections:
        last = merged[-1] if merged else None
        if last is not None and _belong(last, section, target):
            common = _common(last.headings, section.headings)
            merged[-1] = _Section(common, min(last.cap, section.cap), last.atoms + section.atoms)
        else:
            merged.append(section)
    return merged


def _belong(first: _Section, second: _Section, target: int) -> bool:
    if min(first.tokens, second.tokens) > target // 3 or first.tokens + second.tokens > target:
        return False
    shared = len(_common(first.headings, second.headings))
    return shared >= min(len(first.headings), len(second.headings)) - 1


def _common(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    length = 0
    while length < min(len(first), len(second)) and first[length] == second[length]:
        length += 1
    return first[:length]


def _pack(section: _Section, limits: ChunkLimits) -> Iterator[Chunk]:
    """Fills chunks evenly, so that no section ends in a crumb."""
    limit = min(section.cap, int(limits.target * _SLACK))
    left = section.tokens
    share = _share(left, limit, limits.target)
    held: list[_Atom] = []
    tokens = 0
    for atom in section.atoms:
        full = tokens + atom.tokens > limit or tokens + atom.tokens / 2 > share
        if full and not all(one.leads for one in held):
            leading = _trailing_leads(held)
            yield _chunk(section, held[: len(held) - len(leading)])
            share = _share(left + sum(one.tokens for one in leading), limit, limits.target)
            held = leading or _overlap(held, min(limits.overlap, limit - atom.tokens))
            tokens = sum(one.tokens for one in held)
        if held and tokens + atom.tokens > section.cap:  # a lead-in and a code block that fill a chunk each
            yield _chunk(section, held)
            held, tokens = [], 0
        held.append(atom)
        tokens += atom.tokens
        left -= atom.tokens
    if held:
        yield _chunk(section, held)


def _share(left: int, limit: int, target: int) -> float:
    """Tokens for the next chunk, so that what is left falls into equal parts."""
    return left if left <= limit else left / -(-left // target)


def _trailing_leads(held: list[_Atom]) -> list[_Atom]:
    """Atoms at the end that belong with what follows; never all of them."""
    keep = len(held)
    while keep > 1 and held[keep - 1].leads:
        keep -= 1
    return held[keep:]


def _overlap(held: list[_Atom], budget: int) -> list[_Atom]:
    """The last atoms that fit the budget, repeated at the head of the next chunk; never all of them."""
    first, tokens = len(held), 0
    while first > 1 and tokens + held[first - 1].tokens <= budget:
        first -= 1
        tokens += held[first].tokens
    return held[first:]


def _chunk(section: _Section, atoms: list[_Atom]) -> Chunk:
    tokens = sum(atom.tokens for atom in atoms)
    return Chunk(atoms[0].start, atoms[-1].end, section.headings, atoms[0].page, tokens)
