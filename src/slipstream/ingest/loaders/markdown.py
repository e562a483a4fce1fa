"""Markdown → blocks and sections; the text is the source itself, markup included."""

from __future__ import annotations

import re
from itertools import accumulate

from markdown_it import MarkdownIt
from markdown_it.token import Token

from slipstream.ingest.decode import decode
from slipstream.ingest.document import Block, BlockKind, Document, Outline
from slipstream.types import Scalar

# Only block structure is needed; inline parsing would take most of the time.
_PARSER = MarkdownIt("commonmark").enable("table").disable(["inline", "text_join"])
_KINDS: dict[str, BlockKind] = {"fence": "code", "code_block": "code", "table_open": "table", "heading_open": "heading"}
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_FIELD = re.compile(r"^(\w[\w-]*):[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_ANCHOR = re.compile(r"\s*\{\s*[#:.][^}]*\}\s*$")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_MARKUP = re.compile(r"<[^>]+>|[*`]+|\\(?=[^\w\s])")


def load_markdown(data: bytes) -> Document:
    """Raises DataError when the bytes are not text."""
    decoded = decode(data)
    text = decoded.text
    front = _FRONT_MATTER.match(text)
    fields = _front_matter(front.group(1)) if front else {}
    blocks = _blocks(text, front.end() if front else 0)
    first = next((block.headings[-1] for block in blocks if block.kind == "heading" and block.headings), "")
    title = str(fields.pop("title", "")) or first
    warnings = (decoded.warning,) if decoded.warning else ()
    return Document(text, "markdown", tuple(blocks), title, metadata=fields, warnings=warnings)


def _blocks(text: str, begin: int) -> list[Block]:
    body = text[begin:]
    line_starts = list(accumulate((len(line) + 1 for line in body.split("\n")), initial=begin))
    tokens = _PARSER.parse(body)
    outline = Outline()
    blocks: list[Block] = []
    for at, token in enumerate(tokens):
        if token.level or token.map is None:
            continue
        kind = _KINDS.get(token.type, "text")
        if kind == "heading":
            outline.enter(int(token.tag[1:]), _heading(tokens[at + 1]))
        start, end = line_starts[token.map[0]], min(line_starts[token.map[1]], len(text))
        end = start + len(text[start:end].rstrip())
        if end > start:
            blocks.append(Block(start, end, kind, outline.path))
    return blocks


def _heading(inline: Token) -> str:
    text = _ANCHOR.sub("", inline.content)
    return " ".join(_MARKUP.sub("", _LINK.sub(r"\1", text)).split())


def _front_matter(text: str) -> dict[str, Scalar]:
    """Flat `key: value` lines; a list in brackets becomes its items joined by commas."""
    return {key: value.strip("\"'[]") for key, value in _FIELD.findall(text) if value}
