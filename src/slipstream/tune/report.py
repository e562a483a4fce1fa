"""The curve of recall against time: in a terminal, as JSON, as a page."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from slipstream.tune.choose import Choice
from slipstream.tune.measure import Measured

_WIDTH = 24
_CHART_WIDTH, _CHART_HEIGHT = 720, 360
_GREEN, _RED = "#187a3c", "#b3261e"


def show_curve(console: Console, measured: Sequence[Measured], choice: Choice, target_recall: float) -> None:
    """A row a setting, its time as a bar; green reaches the target."""
    table = Table(title="Recall@10 against exact search, and time", title_style="bold")
    for title, justify in (("", "left"), ("index, search", "left"), ("recall", "right"), ("held half", "right")):
        table.add_column(title, justify=justify)  # type: ignore[arg-type]
    for title in ("p50 ms", "p99 ms", "p50 ms, 4 at once", "p99 ms, 4 at once"):
        table.add_column(title, justify="right")
    table.add_column("")
    slowest = max(m.crowded.p50_ms for m in measured)
    for m in measured:
        style = "green" if m.recall >= target_recall else "yellow"
        table.add_row(
            "»" if m is choice.best else "",
            str(m.setting),
            Text(f"{m.recall:.4f}", style=style),
            f"{m.held_recall:.4f}",
            *(f"{ms:.2f}" for ms in (m.alone.p50_ms, m.alone.p99_ms, m.crowded.p50_ms, m.crowded.p99_ms)),
            Text("█" * max(1, round(_WIDTH * m.crowded.p50_ms / slowest)), style=style),
        )
    console.print(table)
    style = "bold green" if choice.reaches else "bold red"
    console.print(Text.assemble(("» ", style), (str(choice.best.setting), "bold"), f": {choice.why}."))
    console.print(
        Text(f"  Recall on the held half: {choice.best.held_recall:.4f} (target {target_recall:g}).", style="dim")
    )


def curve_json(measured: Sequence[Measured], choice: Choice, target_recall: float, applied: bool) -> dict[str, Any]:
    return {
        "target_recall": target_recall,
        "reaches": choice.reaches,
        "why": choice.why,
        "applied": applied,
        "chosen": asdict(choice.best),
        "measured": [asdict(m) for m in measured],
    }


def curve_html(measured: Sequence[Measured], choice: Choice, target_recall: float) -> str:
    """One self-contained page: time to the right, recall upwards."""
    lowest = min(0.9, *(m.recall for m in measured))
    slowest = max(m.crowded.p50_ms for m in measured)

    def across(ms: float) -> float:
        return 60 + (_CHART_WIDTH - 80) * ms / slowest

    def up(recall: float) -> float:
        return 20 + (_CHART_HEIGHT - 60) * (1 - (recall - lowest) / (1 - lowest or 1))

    dots = "".join(
        f'<circle cx="{across(m.crowded.p50_ms):.1f}" cy="{up(m.recall):.1f}" r="{7 if m is choice.best else 4}" '
        f'fill="{_GREEN if m.recall >= target_recall else _RED}"><title>{html.escape(_label(m))}</title></circle>'
        for m in measured
    )
    rows = "".join(f"<li>{'<b>' if m is choice.best else ''}{html.escape(_label(m))}</li>" for m in measured)
    target = up(target_recall)
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Slipstream: index curve</title><style>"
        "body{font:16px/1.5 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a}"
        "svg text{font:13px system-ui,sans-serif}</style><h1>Recall against time</h1>"
        f'<svg viewBox="0 0 {_CHART_WIDTH} {_CHART_HEIGHT}" width="100%" role="img">'
        f'<line x1="60" x2="{_CHART_WIDTH - 20}" y1="{target:.1f}" y2="{target:.1f}" stroke="#187a3c" '
        f'stroke-dasharray="4"/><text x="0" y="{target + 4:.1f}">{target_recall:g}</text>'
        f'<text x="0" y="{up(1.0) + 4:.1f}">1</text><text x="0" y="{up(lowest) + 4:.1f}">{lowest:.2f}</text>'
        f'<text x="60" y="{_CHART_HEIGHT - 8}">0 ms</text><text x="{_CHART_WIDTH - 20}" y="{_CHART_HEIGHT - 8}" '
        f'text-anchor="end">{slowest:.2f} ms, half of the searches, four at once</text>{dots}</svg>'
        f"<p>{html.escape(str(choice.best.setting))}: {html.escape(choice.why)}.</p><ul>{rows}</ul></html>"
    )


def _label(m: Measured) -> str:
    return f"{m.setting}: recall {m.recall:.4f}, held half {m.held_recall:.4f}, {m.crowded.p50_ms:.2f} ms"
