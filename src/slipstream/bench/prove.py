"""`slipstream prove`: measures claims one after another and reports each with both sides and its verdict."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from slipstream.bench import (
    answers_claim,
    batching_claim,
    cache_claim,
    cache_trust_claim,
    encoder_claim,
    evidence_claim,
    failover_claim,
    hybrid_claim,
    index_claim,
    late_claim,
    overhead_claim,
    overload_claim,
    partition_claim,
    quality_claim,
    start_claim,
    streams_claim,
)
from slipstream.bench.claims import Claim, Result
from slipstream.bench.machine import this_machine
from slipstream.bench.report import results_html, results_json, show_result
from slipstream.errors import ConfigError, SlipstreamError
from slipstream.settings import Settings

CLAIMS: tuple[Claim, ...] = (
    encoder_claim.CLAIM,
    quality_claim.CLAIM,
    late_claim.CLAIM,
    hybrid_claim.CLAIM,
    index_claim.CLAIM,
    partition_claim.CLAIM,
    batching_claim.CLAIM,
    streams_claim.CLAIM,
    failover_claim.CLAIM,
    overhead_claim.CLAIM,
    evidence_claim.CLAIM,
    overload_claim.CLAIM,
    start_claim.CLAIM,
    answers_claim.CLAIM,
    cache_claim.CLAIM,
    cache_trust_claim.CLAIM,
)


def list_claims(console: Console) -> None:
    for claim in CLAIMS:
        console.print(f"[bold]{claim.id:9}[/] ~{claim.minutes:g} min  {escape(claim.says)}", highlight=False)


async def run_prove(
    settings: Settings, ids: Sequence[str], console: Console, *, html: Path | None, as_json: bool
) -> bool:
    """True when every claim was measured and none failed.

    Raises ConfigError for a claim that does not exist.
    """
    machine = this_machine()
    results = [await _measured(claim, settings, console) for claim in chosen(ids)]
    if as_json:
        print(json.dumps(results_json(results, machine), ensure_ascii=False, indent=2))
    if html is not None:
        html.write_text(results_html(results, machine), encoding="utf-8")
        console.print(f"Charts: {html}")
    return all(result.finding is not None and result.finding.holds is not False for result in results)


def chosen(ids: Sequence[str]) -> tuple[Claim, ...]:
    known = {claim.id.lower(): claim for claim in CLAIMS}
    unknown = [name for name in ids if name.lower() not in known]
    if unknown:
        raise ConfigError(f"No claim {', '.join(unknown)}. `slipstream prove --list` shows those there are.")
    return tuple(known[name.lower()] for name in ids) or CLAIMS


async def _measured(claim: Claim, settings: Settings, console: Console) -> Result:
    began = time.perf_counter()
    with console.status(f"{claim.id}: about {claim.minutes:g} min") as status:

        def say(what: str) -> None:
            status.update(f"{claim.id}: {what}")

        try:
            finding = await claim.measure(settings, say)
            result = Result(claim, finding, time.perf_counter() - began)
        except SlipstreamError as error:
            result = Result(claim, None, time.perf_counter() - began, f"{error.message} ({error.code})")
    show_result(console, result)
    return result
