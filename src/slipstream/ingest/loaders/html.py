"""HTML → the text a reader sees, without scripts, styles and navigation."""

from __future__ import annotations

import re

from selectolax.lexbor import LexborHTMLParser, LexborNode

from slipstream.errors import DataError
from slipstream.ingest.decode import decode
from slipstream.ingest.document import Builder, Document

MAX_BYTES = 32 << 20
"""A DOM takes some twenty times its source."""

_DROPPED = (
    "script, style, template, noscript, svg, canvas, iframe, nav, footer, aside, button, select, dialog, "
    "[hidden], [aria-hidden=true], [role=navigation], [role=search], [role=banner], [role=contentinfo]"
)
_BLOCKS = frozenset(
    re.findall(
        r"\w+",
        "address article blockquote body caption center dd details div dl dt fieldset figcaption figure form header hr "
        "html li main ol p section summary table tbody td tfoot th thead tr ul",
    )
)
_MAX_DEPTH = 2_000
"""Parsing takes time quadratic in depth, without yielding to other threads; pages people read stay below 100."""
_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9-]*)")
_NEVER_OPEN = frozenset(
    re.findall(r"\w+", "area base br col dd dt embed hr img input li link meta option p source td th tr track wbr")
)
_HEADING = re.compile(r"h([1-6])\Z")
_CHARSET = re.compile(rb"<(?:meta|\?xml)[^>]*?(?:charset|encoding)\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_SUPERSETS = {"gb2312": "gb18030", "gbk": "gb18030", "big5": "cp950", "iso-8859-1": "cp1252", "latin1": "cp1252"}


def load_html(data: bytes) -> Document:
    """Raises DataError when the bytes are not text, or too many for one DOM."""
    if len(data) > MAX_BYTES:
        raise DataError(f"The HTML is larger than {MAX_BYTES >> 20} MiB. Split it.", code="too_large")
    declared = _CHARSET.search(data[:4096])
    encoding = declared.group(1).decode("ascii").lower() if declared else None
    decoded = decode(data, _SUPERSETS.get(encoding, encoding) if encoding else None)
    _check_depth(decoded.text)
    tree = LexborHTMLParser(decoded.text)
    title = tree.css_first("title")
    name = " ".join(title.text().split()) if title else ""
    for node in tree.css(_DROPPED):
        node.decompose()
    walk = _Walk()
    root = _content(tree)
    if root is not None:
        walk.visit(root)
    return walk.builder.build("html", name, (decoded.warning,) if decoded.warning else ())


def _check_depth(source: str) -> None:
    depth = 0
    for closing, tag in _TAG.findall(source):
        if tag.lower() not in _NEVER_OPEN:
            depth = max(0, depth - 1) if closing else depth + 1
            if depth > _MAX_DEPTH:
                raise DataError(f"The HTML is nested more than {_MAX_DEPTH:,} elements deep.", code="too_deep")


def _content(tree: LexborHTMLParser) -> LexborNode | None:
    """The main part when the page marks one and it holds most of the text; else the whole body."""
    body = tree.body
    if body is None:
        return None
    total = len(body.text())
    for selector in ("main", "[role=main]", "article"):
        found = tree.css(selector)
        if len(found) == 1 and len(found[0].text()) * 2 >= total:
            return found[0]
    return body


class _Walk:
    """Visits a tree in document order without recursion: pages nest deeper than the interpreter's stack."""

    def __init__(self) -> None:
        self.builder = Builder()
        self._inline: list[str] = []
        self._item = False

    def visit(self, root: LexborNode) -> None:
        node: LexborNode | None = root
        depth = 0
        while node is not None:
            child = node.first_child if self._enter(node) else None
            if child is not None:
                node, depth = child, depth + 1
                continue
            while node is not None:
                self._leave(node)
                if depth == 0:
                    node = None
                elif node.next is not None:
                    node = node.next
                    break
                else:
                    node, depth = node.parent, depth - 1
        self._flush()

    def _enter(self, node: LexborNode) -> bool:
        """Takes in what the node itself says; True when its children are to be visited."""
        if node.is_text_node:
            self._inline.append(re.sub(r"\s+", " ", node.text_content or ""))
            return False
        tag = node.tag or ""
        if tag == "br":
            self._inline.append("\n")
        elif heading := _HEADING.match(tag):
            self._flush()
            self.builder.heading(int(heading.group(1)), node.text())
            return False
        elif tag == "pre":
            self._flush()
            self.builder.add("code", node.text())
            return False
        elif tag == "table" and _is_data(node):
            self._flush()
            self.builder.add("table", "\n".join(_row(row) for row in node.css("tr")))
            return False
        elif tag in _BLOCKS:
            self._flush()
            self._item = self._item or tag == "li"
        return True

    def _leave(self, node: LexborNode) -> None:
        if not node.is_text_node and node.tag in _BLOCKS:
            self._flush()
            self._item = self._item and node.tag != "li"

    def _flush(self) -> None:
        text = re.sub(r"[^\S\n]*\n[^\S\n]*", "\n", re.sub(r"[^\S\n]+", " ", "".join(self._inline))).strip()
        self._inline.clear()
        if text:
            self.builder.add("text", f"- {text}" if self._item else text, tight=self._item)
            self._item = False


def _is_data(table: LexborNode) -> bool:
    """Tables that lay out a page hold blocks; tables of data hold words."""
    return not any(inner.mem_id != table.mem_id for inner in table.css("table, p, div, ul, ol, pre, h1, h2, h3"))


def _row(row: LexborNode) -> str:
    return " | ".join(" ".join(cell.text().split()) for cell in row.css("td, th"))
