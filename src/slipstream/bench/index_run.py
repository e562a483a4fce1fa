"""`slipstream bench index`: claim R2 at a size of one's own, in a directory that stays."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from slipstream.bench.claims import Result
from slipstream.bench.index_claim import CLAIM, measure_index
from slipstream.bench.machine import this_machine
from slipstream.bench.report import results_json, show_result


async def run_index(directory: Path, passages: int, console: Console, *, as_json: bool) -> bool:
    """Whether the claim holds there."""
    began = time.perf_counter()
    with console.status(f"{passages:,} passages") as status:
        finding = await measure_index(directory, passages, status.update)
    result = Result(replace(CLAIM, says=f"{CLAIM.says} {passages:,} passages."), finding, time.perf_counter() - began)
    show_result(console, result)
    if as_json:
        print(json.dumps(results_json([result], this_machine()), ensure_ascii=False, indent=2))
    return finding.holds is not False
