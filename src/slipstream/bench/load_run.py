"""`slipstream bench load`: many users ask the demo's questions for a while; times and refusals are reported."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field

import httpx
from rich.console import Console
from rich.table import Table

from slipstream.bench.claims import percentile
from slipstream.bench.demo_server import OPTIONS, demo_server
from slipstream.bench.machine import this_machine
from slipstream.commands.ask import http_client
from slipstream.commands.client import Reply, ask
from slipstream.demo.questions import demo_questions
from slipstream.errors import SlipstreamError
from slipstream.settings import Settings


@dataclass(slots=True)
class LoadReport:
    users: int
    seconds: float = 0.0
    replies: list[Reply] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)
    """By error code."""


async def run_load(
    settings: Settings, console: Console, *, users: int, seconds: float, server: str | None, as_json: bool
) -> None:
    """Against the server named, asking its default collection; else against the demo in a process of its own."""
    with console.status(f"{users} users for {seconds:.0f} s …"):
        if server is not None:
            async with http_client(server, settings) as http:
                report = await _drive(http, {}, users, seconds)
        else:
            async with demo_server(settings) as demo:
                report = await _drive(demo.http, OPTIONS, users, seconds)
    _show(report, console)
    if as_json:
        print(json.dumps({"machine": asdict(this_machine()), **_json(report)}, indent=2))


async def _drive(http: httpx.AsyncClient, options: Mapping[str, object], users: int, seconds: float) -> LoadReport:
    report, began = LoadReport(users), time.perf_counter()
    questions = itertools.cycle([item.question for item in demo_questions()])
    await asyncio.gather(*(_user(http, options, questions, began + seconds, report) for _ in range(users)))
    report.seconds = time.perf_counter() - began
    return report


async def _user(
    http: httpx.AsyncClient, options: Mapping[str, object], questions: Iterator[str], until: float, report: LoadReport
) -> None:
    while time.perf_counter() < until:
        try:
            report.replies.append(await ask(http, next(questions), options={**options, "cache": "off"}))
        except SlipstreamError as error:
            report.refused[error.code] = report.refused.get(error.code, 0) + 1
            await asyncio.sleep(getattr(error, "retry_after_s", None) or 1.0)


def _rows(report: LoadReport) -> list[tuple[str, list[float]]]:
    return [
        ("evidence", [r.evidence_s for r in report.replies if r.evidence_s is not None]),
        ("first token", [r.first_token_s for r in report.replies if r.first_token_s is not None]),
        ("whole answer", [r.total_s for r in report.replies]),
        ("token gap", [gap for r in report.replies for gap in r.gaps_s]),
    ]


def _show(report: LoadReport, console: Console) -> None:
    table = Table(title=f"{report.users} users, {len(report.replies)} answers in {report.seconds:.0f} s", box=None)
    for title in ("", "p50 ms", "p95 ms", "p99 ms"):
        table.add_column(title, justify="right" if title else "left")
    for name, values in _rows(report):
        if values:
            table.add_row(name, *(f"{1e3 * percentile(values, p):.0f}" for p in (50, 95, 99)))
    console.print(table)
    console.print(f"{len(report.replies) / report.seconds:.2f} answers/s; refused: {report.refused or 'none'}")


def _json(report: LoadReport) -> dict[str, object]:
    times = {
        name.replace(" ", "_"): {f"p{p}_ms": round(1e3 * percentile(values, p), 1) for p in (50, 95, 99)}
        for name, values in _rows(report)
        if values
    }
    return {
        "users": report.users,
        "seconds": round(report.seconds, 1),
        "answers": len(report.replies),
        "refused": report.refused,
        **times,
    }
