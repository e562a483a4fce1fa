"""Findings for a person (table, bars), for a program (JSON) and for a reader with a browser (HTML)."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from slipstream.bench.claims import Bar, Finding, Result, Side
from slipstream.bench.machine import Machine
from slipstream.bench.quality import QualityReport

_WIDTH = 28


def results_json(results: Sequence[Result], machine: Machine) -> dict[str, Any]:
    return {"machine": asdict(machine), "claims": [_result_json(result) for result in results]}


def _result_json(result: Result) -> dict[str, Any]:
    finding = result.finding
    return {
        "id": result.claim.id,
        "claimed": result.claim.says,
        "holds": finding.holds if finding else None,
        "error": result.error or None,
        "seconds": round(result.seconds, 1),
        "sides": [
            {"name": s.name, "unit": s.unit, "median": s.median, "min": s.low, "max": s.high, "repeats": len(s.samples)}
            for s in (finding.sides if finding else ())
        ],
        "bars": [{**asdict(bar), "holds": bar.holds} for bar in (finding.bars if finding else ())],
        "note": finding.note if finding else "",
    }


def show_result(console: Console, result: Result) -> None:
    console.print(Text.assemble((f"{result.claim.id}  ", "bold"), result.claim.says))
    if result.finding is None:
        console.print(Text(f"  not measured: {result.error}", style="red"))
    else:
        console.print(_finding(result.finding))
    console.print(Text(f"  {result.seconds:.0f} s\n", style="dim"))


def _finding(finding: Finding) -> RenderableType:
    parts: list[RenderableType] = []
    if finding.sides:
        table = Table(box=None, padding=(0, 1), show_header=True, header_style="dim")
        for title, justify in (("  measured", "left"), ("median", "right"), ("min … max", "right"), ("", "left")):
            table.add_column(title, justify=justify)  # type: ignore[arg-type]
        for side in finding.sides:
            table.add_row(f"  {side.name}", _value(side.median, side.unit), _spread(side), _bar(side, finding.sides))
        parts.append(table)
    parts.extend(_verdict(bar) for bar in finding.bars)
    if finding.note:
        parts.append(Text(f"  {finding.note}", style="dim"))
    return Group(*parts)


def _verdict(bar: Bar) -> Text:
    mark, style = {True: ("holds", "green"), False: ("FAILS", "bold red"), None: ("report", "cyan")}[bar.holds]
    bound = (
        f" (needs {bar.op} {_value(bar.bound, bar.unit)})" if bar.holds is not None and bar.bound is not None else ""
    )
    return Text.assemble("  ", (f"{mark:6}", style), f" {bar.what}: ", (_value(bar.figure, bar.unit), "bold"), bound)


def _bar(side: Side, sides: Sequence[Side]) -> Text:
    longest = max(s.median for s in sides if s.unit == side.unit) or 1.0
    return Text("█" * max(1, round(_WIDTH * side.median / longest)), style="blue")


def _spread(side: Side) -> str:
    return f"{side.low:.4g} … {side.high:.4g}" if len(side.samples) > 1 else ""


def _value(figure: float | None, unit: str) -> str:
    return "" if figure is None else f"{figure:.4g} {unit}".strip()


def show_quality(console: Console, reports: Sequence[QualityReport]) -> None:
    table = Table(title="Retrieval quality", title_style="bold")
    for title in ("set", "way", "recall@1", "recall@10", "nDCG@10", "median ms"):
        table.add_column(title, justify="left" if title in ("set", "way") else "right")
    for report in reports:
        for i, row in enumerate(report.rows):
            name = f"{report.set} ({report.questions} q., {report.passages} p.)" if i == 0 else ""
            figures = (
                f"{row.recall_at_1:.3f}",
                f"{row.recall_at_10:.3f}",
                f"{row.ndcg_at_10:.3f}",
                f"{row.median_ms:.1f}",
            )
            table.add_row(name, row.way, *figures, end_section=i == len(report.rows) - 1)
    console.print(table)
    for report in reports:
        said = "  ".join(f"{stage.stage} {stage.median_ms:.1f}" for stage in report.stages)
        console.print(Text(f"{report.set}: ms a query and stage: {said}", style="dim"))


def results_html(results: Sequence[Result], machine: Machine) -> str:
    """One self-contained page: a section a claim, with a bar chart of its sides."""
    body = "".join(_section(result) for result in results)
    about = html.escape(f"{machine.cpu}, {machine.cores} cores, {machine.memory_gib} GiB, Python {machine.python}")
    packages = html.escape(", ".join(f"{name} {number}" for name, number in machine.versions.items()))
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Slipstream: measured claims</title><style>"
        "body{font:16px/1.5 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a}"
        "section{border-top:1px solid #ddd;padding:1rem 0}.ok{color:#187a3c}.no{color:#b3261e}.meta{color:#666}"
        "svg text{font:13px system-ui,sans-serif}</style>"
        f"<h1>Measured claims</h1><p class=meta>{about}<br>{packages}</p>{body}</html>"
    )


def _section(result: Result) -> str:
    finding = result.finding
    head = f"<section><h2>{html.escape(result.claim.id)}</h2><p>{html.escape(result.claim.says)}</p>"
    if finding is None:
        return f"{head}<p class=no>Not measured: {html.escape(result.error)}</p></section>"
    bars = "".join(_bar_html(bar) for bar in finding.bars)
    note = f"<p class=meta>{html.escape(finding.note)}</p>" if finding.note else ""
    return f"{head}{_chart(finding.sides)}<ul>{bars}</ul>{note}</section>"


def _bar_html(bar: Bar) -> str:
    style = {True: "ok", False: "no", None: "meta"}[bar.holds]
    bound = f" (needs {bar.op} {_value(bar.bound, bar.unit)})" if bar.holds is not None else ""
    return f"<li class={style}>{html.escape(f'{bar.what}: {_value(bar.figure, bar.unit)}{bound}')}</li>"


def _chart(sides: Sequence[Side]) -> str:
    if not sides:
        return ""
    rows = []
    for i, side in enumerate(sides):
        longest = max(s.high for s in sides if s.unit == side.unit) or 1.0
        y, scale = 28 * i, 420 / longest
        label = html.escape(f"{side.name}: {_value(side.median, side.unit)}")
        rows.append(
            f'<rect x="0" y="{y + 4}" width="{scale * side.median:.1f}" height="10" fill="#3b6fd4"/>'
            f'<line x1="{scale * side.low:.1f}" x2="{scale * side.high:.1f}" y1="{y + 9}" y2="{y + 9}" stroke="#111"/>'
            f'<text x="430" y="{y + 14}">{label}</text>'
        )
    return f'<svg viewBox="0 0 860 {28 * len(sides)}" width="100%" role="img">{"".join(rows)}</svg>'
