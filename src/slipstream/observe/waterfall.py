"""Draws where a request's time went, one row a stage, in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from slipstream.call import Span

_ENDING_IN_CELL = " ▏▎▍▌▋▊▉█"
_EIGHTHS = 8
_MIN_BAR = 12
_MAX_NAME = 20
_MS = 7
_KNEE_AT = 0.6
"""Fraction of the width that the time to the first token gets at least: it is what a reader waits for."""
_STYLES = {
    "queue": "red",
    "admission": "red",
    "cache": "blue",
    "rewrite": "blue",
    "retrieve": "cyan",
    "encode": "cyan",
    "dense": "cyan",
    "sparse": "cyan",
    "rerank": "magenta",
    "late_interaction": "magenta",
    "cross_encoder": "magenta",
    "assemble": "yellow",
    "route": "yellow",
    "generate": "green",
}


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    start_s: float
    end_s: float
    solid_from_s: float
    """Before this the bar is hatched: the model reads (prefill) and has not said a word."""
    figure: str
    detail: str
    style: str


@dataclass(frozen=True, slots=True)
class _Scale:
    """Seconds to eighths of a cell: linear, or in two linear parts that meet at the knee."""

    total_s: float
    cells: int
    knee_s: float | None = None

    def eighth(self, at_s: float) -> int:
        at_s = min(max(at_s, 0.0), self.total_s)
        if self.knee_s is None:
            fraction = at_s / self.total_s
        elif at_s <= self.knee_s:
            fraction = _KNEE_AT * at_s / self.knee_s
        else:
            fraction = _KNEE_AT + (1 - _KNEE_AT) * (at_s - self.knee_s) / (self.total_s - self.knee_s)
        return round(fraction * self.cells * _EIGHTHS)

    def cell(self, at_s: float) -> int:
        return min(self.eighth(at_s) // _EIGHTHS, self.cells - 1)


def render_waterfall(spans: Sequence[Span], total_s: float, width: int = 80) -> Text:
    """Rows in the order the stages began, each bar at its offset, so that what overlaps is seen to.

    Stages inside another are indented. Instants (the first token) are dotted lines with their time
    below; the part of a generation before its first token is hatched. When decoding dwarfs what came
    before, the axis has a knee at the first token, marked on it. Never wider than `width` cells.
    """
    total_s = max([total_s, 1e-6, *(span.end_s or span.start_s for span in spans)])
    marks = [span for span in spans if span.end_s == span.start_s]
    rows = _rows([span for span in spans if span.end_s != span.start_s], marks, total_s)
    name_cells = min(max([5, *(cell_len(row.name) for row in rows)]), _MAX_NAME, max(5, width - _MS - 3 - _MIN_BAR))
    scale = _Scale(total_s, max(_MIN_BAR, width - name_cells - _MS - 3), _knee_s(marks, total_s))
    ticks = {scale.cell(mark.start_s) for mark in marks}
    lines = [_header(name_cells, scale)]
    for row in rows:
        lines += _lines(row, name_cells, scale, ticks)
    lines += [_mark_line(mark, name_cells, scale) for mark in marks]
    return Text("\n", no_wrap=True, overflow="crop", end="").join(lines)


def _knee_s(marks: Sequence[Span], total_s: float) -> float | None:
    first = [mark.start_s for mark in marks if mark.name == "first_token"]
    return first[0] if first and 0 < first[0] < _KNEE_AT * total_s else None


def _rows(stages: Sequence[Span], marks: Sequence[Span], total_s: float) -> list[_Row]:
    rows = []
    outer_end_s = -1.0
    for span in stages:
        end_s = total_s if span.end_s is None else span.end_s
        inside = end_s <= outer_end_s
        if not inside:
            outer_end_s = end_s
        first = [m.start_s for m in marks if m.name == "first_token" and span.start_s <= m.start_s <= end_s]
        solid_from_s = first[0] if first and span.name == "generate" else span.start_s
        name = ("  " if inside else "") + span.name.replace("_", " ")
        figure = "…" if span.end_s is None else _ms(span.duration_s)
        detail = _detail(span, solid_from_s)
        rows.append(_Row(name, span.start_s, end_s, solid_from_s, figure, detail, _STYLES.get(span.name, "white")))
    return rows


def _detail(span: Span, solid_from_s: float) -> str:
    parts = [_said(name, value) for name, value in span.detail.items()]
    tokens = span.detail.get("tokens")
    if span.name == "generate" and isinstance(tokens, int) and tokens > 1 and span.end_s is not None:
        decode_s = span.end_s - solid_from_s
        if span.start_s < solid_from_s < span.end_s:
            parts.append(f"{(tokens - 1) / decode_s:.0f}/s")
    return " · ".join(part for part in parts if part)


def _said(name: str, value: str | float | bool) -> str:
    name = name.removesuffix("_tokens").replace("_", " ")
    if isinstance(value, bool):
        return name if value else ""
    if isinstance(value, str):
        return value
    return f"{value} {name}" if isinstance(value, int) else f"{value:.3g} {name}"


def _header(name_cells: int, scale: _Scale) -> Text:
    axis = [" "] * scale.cells
    _write(axis, 0, "0")
    total = _seconds(scale.total_s)
    _write(axis, scale.cells - len(total), total)
    if scale.knee_s is not None:
        label = _seconds(scale.knee_s)
        _write(axis, scale.cell(scale.knee_s) - len(label) - 1, f"{label} ┊")
    return Text(f"{'stage':<{name_cells}} {'ms':>{_MS}}  {''.join(axis)}", style="dim")


def _write(cells: list[str], at: int, text: str) -> None:
    """Writes narrow characters where they fit and touch nothing."""
    end = at + len(text)
    if at >= 0 and end <= len(cells) and not "".join(cells[max(0, at - 1) : end + 1]).strip():
        cells[at:end] = text


def _lines(row: _Row, name_cells: int, scale: _Scale, ticks: set[int]) -> list[Text]:
    """The bar, with what is to be said behind it, else before it, else below it."""
    start = min(scale.eighth(row.start_s), scale.cells * _EIGHTHS - 1)
    end = max(scale.eighth(row.end_s), start + 1)
    first, beyond = start // _EIGHTHS, -(-end // _EIGHTHS)
    said = cell_len(row.detail)
    line = Text(set_cell_size(row.name, name_cells))
    line.append(f" {row.figure:>{_MS}}  ", style="bold")
    before = said and said + 1 > scale.cells - beyond and said + 1 <= first
    line.append(_blank(0, first - said - 1, ticks) + row.detail + " " if before else _blank(0, first, ticks), "dim")
    hatched = scale.cell(row.solid_from_s)
    for cell in range(first, beyond):
        char = "░" if cell < hatched else _block(start - cell * _EIGHTHS, end - cell * _EIGHTHS)
        line.append(char, style=row.style)
    if said and said + 1 <= scale.cells - beyond:
        line.append(f" {row.detail}" + _blank(beyond + said + 1, scale.cells, ticks), style="dim")
    elif before or not said:
        line.append(_blank(beyond, scale.cells, ticks), style="dim")
    else:
        below = _cropped(row.detail, scale.cells)
        indent = min(first, scale.cells - cell_len(below))
        return [line, Text(" " * (name_cells + _MS + 3 + indent) + below, style="dim")]
    line.rstrip()
    return [line]


def _blank(begin: int, end: int, ticks: set[int]) -> str:
    return "".join("┊" if cell in ticks else " " for cell in range(begin, end))


def _block(start: int, end: int) -> str:
    """The block character for the part of a cell between two eighths, as far as there is one."""
    start, end = max(start, 0), min(end, _EIGHTHS)
    if start >= end:
        return " "
    if start == 0:
        return _ENDING_IN_CELL[end]
    if end == _EIGHTHS:
        return "▐" if start < 6 else "▕"
    return "▏" if end <= _EIGHTHS // 2 else "▕"


def _mark_line(mark: Span, name_cells: int, scale: _Scale) -> Text:
    at = name_cells + _MS + 3 + scale.cell(mark.start_s)
    label = f"{mark.name.replace('_', ' ')} {_seconds(mark.start_s)}"
    if at + 2 + cell_len(label) <= name_cells + _MS + 3 + scale.cells:
        return Text(f"{' ' * at}╰ {label}", style="bold")
    label = _cropped(label, at - 1)
    return Text(f"{' ' * (at - 1 - cell_len(label))}{label} ╯", style="bold")


def _cropped(text: str, cells: int) -> str:
    return text if cell_len(text) <= cells else set_cell_size(text, cells - 1) + "…"


def _ms(seconds: float) -> str:
    ms = seconds * 1_000
    return f"{ms:.1f}" if ms < 100 else f"{ms:,.0f}"


def _seconds(seconds: float) -> str:
    return f"{seconds * 1_000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"
