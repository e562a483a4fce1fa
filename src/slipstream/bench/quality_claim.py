"""R13: fusion and late interaction over both legs reach the retrieval floor in both languages."""

from __future__ import annotations

from rich.console import Console

from slipstream.bench.claims import Bar, Claim, Finding, Say, Side
from slipstream.bench.quality_run import chosen_sets, measure_sets
from slipstream.settings import Settings

FLOORS = {"xquad_en": 0.97, "xquad_zh": 0.955, "cmrc2018_dev": 0.975}
QUESTIONS, SEED = 300, 0


async def measure(settings: Settings, say: Say) -> Finding:
    say("encoding 1,568 passages, then 1,200 questions")
    reports = await measure_sets(settings, chosen_sets(None, None), QUESTIONS, SEED, Console(quiet=True))
    sides = tuple(
        Side(f"{report.set}: {row.way}", "recall@1", (row.recall_at_1,)) for report in reports for row in report.rows
    )
    bars = [
        Bar(
            f"{report.set}: late interaction", report.row("rrf + late interaction").recall_at_1, "recall@1", ">=", floor
        )
        for report in reports
        if (floor := FLOORS.get(report.set)) is not None
    ]
    for report in reports:
        dense, late = report.row("dense").recall_at_1, report.row("rrf + late interaction").recall_at_1
        best_leg = max(dense, report.row("sparse").recall_at_1)
        bars.append(
            Bar(f"{report.set}: RRF minus its best leg", report.row("rrf").recall_at_1 - best_leg, "", "report")
        )
        bars.append(Bar(f"{report.set}: late interaction minus the best leg", late - best_leg, "", "report"))
    return Finding(sides, tuple(bars), f"{QUESTIONS} sampled questions a set, seed {SEED}")


CLAIM = Claim("R13", "Dense and BM25 fused by rank, then late interaction, find the right passage first.", measure, 6)
