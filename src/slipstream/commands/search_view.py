"""What a search looks like in a terminal: one column a step, one letter a passage, so that the eye can follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from slipstream.call import Span
from slipstream.observe.waterfall import render_waterfall

Json: TypeAlias = Mapping[str, Any]

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "red")
_NAME_CHARACTERS = 26
_TEXT_CHARACTERS = 90


class SearchView:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._marks: dict[str, str] = {}

    def show(self, text: str, found: Json) -> None:
        explained = found["explain"]
        self._mark(found, explained)
        self._console.print(Text.assemble(("? ", "bold cyan"), (text, "bold")))
        if explained["query"]["text"] != text:
            self._console.print(Text(f"  searched: {explained['query']['text']} ({explained['query']['reason']})"))
        self._console.print(self._table(found, explained))
        self._console.print(self._legend(explained))
        self._times(found)

    def _mark(self, found: Json, explained: Json) -> None:
        """In the order of what is shown in the end, then of the fused list, then of the legs."""
        ids = [item["passage_id"] for item in (*found["data"], *explained["fused"])]
        ids += [hit["passage_id"] for leg in explained["legs"] for hit in leg["hits"]]
        for number, passage_id in enumerate(dict.fromkeys(ids)):
            letter = _LETTERS[number % len(_LETTERS)]
            self._marks[passage_id] = letter if number < len(_LETTERS) else f"{letter}{number // len(_LETTERS)}"

    def _table(self, found: Json, explained: Json) -> Table:
        columns = [(self._leg_title(leg, found, explained), leg["hits"], 4) for leg in explained["legs"] if leg["hits"]]
        columns.append((f"fused\n{_ms(found, 'retrieve')}", explained["fused"], 5))
        reranked = explained["reranked"]
        scorer = reranked[0]["scorer"] if reranked else "rrf"
        columns.append((f"reranked ({scorer})\n{_ms(found, 'rerank')}", reranked, 4))
        columns.append(("shown\n", found["data"], 4))
        table = Table(pad_edge=False, header_style="bold", row_styles=("", "dim"))
        table.add_column("#", justify="right")
        for title, _, _ in columns:
            table.add_column(title, no_wrap=True)
        for row in range(max((len(items) for _, items, _ in columns), default=0)):
            cells = (self._cell(items, row, digits) for _, items, digits in columns)
            table.add_row(str(row + 1), *cells)
        return table

    def _leg_title(self, leg: Json, found: Json, explained: Json) -> str:
        own = leg["query"] == explained["query"]["text"]
        return f"{leg['leg']}\n{_ms(found, leg['leg'])}" if own else f"{leg['leg']}\n“{leg['query'][:18]}”"

    def _cell(self, items: Sequence[Json], row: int, digits: int) -> Text:
        if row >= len(items):
            return Text("")
        item = items[row]
        mark = self._marks.get(item["passage_id"], "?")
        return Text.assemble((f"{mark:<3}", f"bold {_colour(mark)}"), f"{item['score']:.{digits}f}")

    def _legend(self, explained: Json) -> Table:
        """What the letters stand for; those that shaping left out are crossed out."""
        gone = set(explained["collapsed"])
        table = Table(box=None, pad_edge=False, show_header=False)
        for _ in range(3):
            table.add_column(no_wrap=True, overflow="ellipsis")
        for passage_id, mark in self._marks.items():
            passage = explained["passages"].get(passage_id)
            if passage is None:
                continue
            name = f"{passage['source'] or passage['title']}#{passage['position']}"[-_NAME_CHARACTERS:]
            text = " ".join(str(passage["text"]).split())[:_TEXT_CHARACTERS]
            style = "strike dim" if passage_id in gone else ""
            table.add_row(
                Text(mark, style=f"bold {_colour(mark)}"), Text(name, style="yellow"), Text(text, style=style)
            )
        return table

    def _times(self, found: Json) -> None:
        spans = [
            Span(s["name"], s["start_ms"] / 1e3, (s["start_ms"] + s["duration_ms"]) / 1e3, dict(s.get("detail") or {}))
            for s in found["stages"]
        ]
        total_s = max((span.end_s or 0.0 for span in spans), default=0.0)
        self._console.print(Padding(render_waterfall(spans, total_s, min(self._console.width, 100) - 4), (1, 0, 0, 2)))
        if found["degraded"]:
            self._console.print(Text(f"  dropped: {', '.join(found['degraded'])}", style="dim"))


def _colour(mark: str) -> str:
    return _COLOURS[_LETTERS.find(mark[0]) % len(_COLOURS)]


def _ms(found: Json, stage: str) -> str:
    taken = [s["duration_ms"] for s in found["stages"] if s["name"] == stage]
    return f"{sum(taken):.1f} ms" if taken else ""
