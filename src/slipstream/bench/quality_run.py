"""`slipstream bench quality`: the retrieval table over the shipped samples, and SciFact when a copy is named."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from slipstream.answer.cross_encode import CrossEncode
from slipstream.bench.datasets import SHIPPED, EvaluationSet, scifact, shipped
from slipstream.bench.machine import this_machine
from slipstream.bench.quality import QualityReport, index, measure
from slipstream.bench.report import show_quality
from slipstream.build import build_cross_encoder, build_encoder, build_store, with_cascade
from slipstream.errors import ConfigError
from slipstream.models.base import Encoder
from slipstream.models.provision import Provisioner
from slipstream.settings import Settings

_PATIENCE_S = 600.0
"""Quality is measured whatever it costs; the answer path gives up sooner."""


async def run_quality(
    settings: Settings,
    console: Console,
    *,
    sets: Sequence[str] | None,
    questions: int,
    seed: int,
    scifact_zip: Path | None,
    as_json: bool,
) -> None:
    reports = await measure_sets(settings, chosen_sets(sets, scifact_zip), questions, seed, console)
    show_quality(console, reports)
    if as_json:
        body = {"machine": asdict(this_machine()), "seed": seed, "sets": [asdict(report) for report in reports]}
        print(json.dumps(body, ensure_ascii=False, indent=2))


def chosen_sets(names: Sequence[str] | None, scifact_zip: Path | None) -> list[EvaluationSet]:
    """Raises ConfigError for a set that is not shipped."""
    unknown = [name for name in names or () if name not in SHIPPED]
    if unknown:
        raise ConfigError(f"No set {', '.join(unknown)}; shipped are {', '.join(SHIPPED)}.")
    chosen = [shipped(name) for name in (names if names is not None else SHIPPED)]
    return [*chosen, scifact(scifact_zip)] if scifact_zip is not None else chosen


async def measure_sets(
    settings: Settings, sets: Sequence[EvaluationSet], questions: int, seed: int, console: Console
) -> list[QualityReport]:
    settings = with_cascade(settings)
    provisioner = Provisioner(settings.models.cache_dir, offline=settings.models.offline)
    encoder, cross = build_encoder(settings, provisioner), build_cross_encoder(settings, provisioner)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(encoder.close)
        await encoder.warm_up()
        patient = None
        if cross is not None:
            stack.push_async_callback(cross.model.close)
            await cross.model.warm_up()
            if cross.batcher is not None:
                await stack.enter_async_context(cross.batcher)
            patient = CrossEncode(cross.model.name, cross.score_pairs, _PATIENCE_S, 0)
        return [await _one(data, settings, encoder, patient, questions, seed, console) for data in sets]


async def _one(
    data: EvaluationSet,
    settings: Settings,
    encoder: Encoder,
    cross: CrossEncode | None,
    questions: int,
    seed: int,
    console: Console,
) -> QualityReport:
    with tempfile.TemporaryDirectory(prefix="slipstream-quality-") as directory:
        here = settings.model_copy(update={"data": settings.data.model_copy(update={"dir": Path(directory)})})
        store = build_store(here, encoder)
        await store.open()
        try:
            with _progress(console) as progress:
                task = progress.add_task(f"{data.name}: encoding", total=len(data.passages))
                ids = await index(data, store, encoder, lambda done: progress.advance(task, done))
            return await measure(data.sample(questions, seed), ids, store, encoder, settings.retrieval, cross)
        finally:
            with suppress(OSError):
                await store.close()


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True)
