"""Runs the checks, and shows what they found in a terminal or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from slipstream.doctor.check import Check
from slipstream.doctor.engines import check_engines
from slipstream.doctor.machine import check_machine
from slipstream.doctor.models import check_models
from slipstream.doctor.network import check_network
from slipstream.doctor.storage import check_storage
from slipstream.settings import Settings

_SIGNS = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red")}
_GROUPS: tuple[Callable[[Settings], Iterable[Check]], ...] = (
    check_machine,
    check_storage,
    check_models,
    check_engines,
    check_network,
)


@dataclass(frozen=True, slots=True)
class DoctorReport:
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Nothing failed; warnings are not failures."""
        return all(check.state != "fail" for check in self.checks)

    def as_json(self) -> dict[str, Any]:
        return {"ok": self.ok, "checks": [asdict(check) for check in self.checks]}


def run_doctor(settings: Settings) -> DoctorReport:
    """Looks and changes nothing; seconds at most. What is wrong becomes a check, nothing is raised."""
    return DoctorReport(tuple(check for group in _GROUPS for check in group(settings)))


def render(report: DoctorReport, console: Console) -> None:
    """One line a check, and under it what to do."""
    width = max(len(check.name) for check in report.checks)
    for check in report.checks:
        sign, style = _SIGNS[check.state]
        console.print(
            Text.assemble((f"{sign} ", f"bold {style}"), (check.name.ljust(width + 2), "bold"), check.sentence)
        )
        if check.advice:
            console.print(Padding(Text(f"→ {check.advice}", style=style), (0, 0, 0, width + 4)))
    console.print(_verdict(report))


def _verdict(report: DoctorReport) -> Text:
    failed = sum(check.state == "fail" for check in report.checks)
    warned = sum(check.state == "warn" for check in report.checks)
    if failed:
        return Text(f"\n{failed} of {len(report.checks)} checks failed.", style="bold red")
    if warned:
        return Text(f"\nNothing stands in the way; {warned} to look at.", style="bold yellow")
    return Text("\nEverything is in order.", style="bold green")
