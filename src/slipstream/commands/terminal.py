"""What answers look like in a terminal: evidence with its best sentence marked, text as it streams, the waterfall."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from slipstream.call import Span
from slipstream.observe.waterfall import render_waterfall
from slipstream.text.plain import plain

_SHOWN_CHARACTERS = 320


class AnswerView:
    """Shows one answer as it arrives."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._writing = False

    def question(self, text: str) -> None:
        self._console.print()
        self._console.print(Text.assemble(("? ", "bold cyan"), (text, "bold")))

    def evidence(self, citations: Sequence[Mapping[str, Any]]) -> None:
        for citation in citations:
            self._console.print(Padding(_citation(citation), (0, 0, 0, 2)))

    def text(self, piece: str) -> None:
        if not self._writing:
            self._writing = True
            self._console.print("\n[bold green]»[/] ", end="")
        self._console.print(Text(piece), end="", soft_wrap=True)
        sys.stdout.flush()

    def end(self, final: Mapping[str, Any], total_s: float) -> None:
        """Closes the text and draws where the time went."""
        if self._writing:
            self._console.print("\n")
        spans = [_span(stage) for stage in final.get("stages", ())]
        self._console.print(Padding(render_waterfall(spans, total_s, min(self._console.width, 100) - 4), (0, 0, 0, 2)))
        for line in _remarks(final):
            self._console.print(Text(f"  {line}", style="dim"))


def _citation(citation: Mapping[str, Any]) -> Text:
    where = " › ".join([str(citation.get("source") or citation.get("title") or ""), *citation.get("headings", ())])
    if citation.get("page"):
        where += f", page {citation['page']}"
    line = Text.assemble((f"[{citation['index']}] ", "bold yellow"), (where, "yellow"), "\n    ")
    line.append(_excerpt(citation))
    return line


def _excerpt(citation: Mapping[str, Any]) -> Text:
    """The best sentence, bold, with a little of what surrounds it."""
    passage, start = str(citation["text"]), int(citation["start"])
    first, last = int(citation["sentence"]["start"]) - start, int(citation["sentence"]["end"]) - start
    room = max(0, (_SHOWN_CHARACTERS - (last - first)) // 2)
    before, after = passage[max(0, first - room) : first], passage[last : last + room]
    text = Text()
    text.append(_fold(before if first <= room else f"…{before}"), style="dim")
    text.append(_fold(passage[first:last]), style="bold")
    text.append(_fold(after if last + room >= len(passage) else f"{after}…"), style="dim")
    return text


def _fold(text: str) -> str:
    folded = " ".join(plain(text).split())
    return f"{' ' if text[:1].isspace() else ''}{folded}{' ' if text[-1:].isspace() and folded else ''}"


def _span(stage: Mapping[str, Any]) -> Span:
    start = float(stage["start_ms"]) / 1e3
    return Span(str(stage["name"]), start, start + float(stage["duration_ms"]) / 1e3, dict(stage.get("detail") or {}))


def _remarks(final: Mapping[str, Any]) -> list[str]:
    remarks = []
    if final.get("route"):
        why = next((s["detail"].get("reason") for s in final.get("stages", ()) if s["name"] == "route"), "")
        remarks.append(f"answered by: {final.get('model')}, the {final['route']} tier ({why})")
    if final.get("degraded"):
        remarks.append(f"dropped to be in time: {', '.join(final['degraded'])}")
    if final.get("supported") is False:
        remarks.append("careful: the answer cites nothing it was given")
    return remarks
