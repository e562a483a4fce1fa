"""`slipstream index`: measure what searches find and cost on the data at hand, and set the index accordingly."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from slipstream.build import build_encoder, build_store
from slipstream.commands.fetching import provisioner
from slipstream.errors import ConfigError, DataError
from slipstream.models.base import Encoder
from slipstream.settings import Settings
from slipstream.stores.index import TunableStore
from slipstream.tune.report import curve_html, curve_json, show_curve
from slipstream.tune.run import Aim, Tuned, tune
from slipstream.tune.sample import Halves, Probe, asked, halved, spoken, stored_passages
from slipstream.types import Scope

_SEED = 0


@dataclass(frozen=True, slots=True)
class TuneOptions:
    target_recall: float
    max_ms: float | None
    queries: int
    questions: Path | None
    """A file of questions, one a line."""
    tenant: str
    """Whose documents the questions of the file are asked of."""
    build: bool
    apply: bool


async def run_tune(
    settings: Settings, options: TuneOptions, console: Console, *, html: Path | None, as_json: bool
) -> bool:
    """True when a setting reaches the target.

    Raises ConfigError for a store without an index to tune, DataError when it holds next to nothing.
    """
    aim = Aim(options.target_recall, settings.retrieval.dense_limit or 10, options.max_ms, options.build, options.apply)
    async with _opened(settings, console) as (store, encoder):
        with console.status("Sampling questions …") as status:
            halves = await _halves(store, encoder, options)
            tuned = await tune(store, halves, aim, lambda what: status.update(f"{what} …"))
        wins = _overridden(settings, store, tuned)
    show_curve(console, tuned.measured, tuned.choice, options.target_recall)
    if wins:
        console.print("[yellow]The settings file names other values under \\[index]; they win. Remove them there.[/]")
    if html is not None:
        html.write_text(curve_html(tuned.measured, tuned.choice, options.target_recall), encoding="utf-8")
    if as_json:
        result = curve_json(tuned.measured, tuned.choice, options.target_recall, tuned.applied)
        print(json.dumps(result, ensure_ascii=False, indent=2))
    return tuned.choice.reaches


@asynccontextmanager
async def _opened(settings: Settings, console: Console) -> AsyncIterator[tuple[TunableStore, Encoder]]:
    encoder = build_encoder(settings, provisioner(settings, console))
    store = build_store(settings, encoder)
    if not isinstance(store, TunableStore):
        raise ConfigError(f"The store {settings.data.store} is exact and has no index to tune.")
    with console.status("Opening the store …"):
        await store.open()
    try:
        with console.status("Loading the encoder …"):
            await encoder.warm_up()
        yield store, encoder
    finally:
        await encoder.close()
        await store.close()


async def _halves(store: TunableStore, encoder: Encoder, options: TuneOptions) -> Halves:
    probes: list[Probe]
    if options.questions is not None:
        texts = [line.strip() for line in options.questions.read_text(encoding="utf-8").splitlines() if line.strip()]
        texts = texts[: options.queries]
        probes = await asked(texts, [Scope(options.tenant)] * len(texts), encoder)
        if not any([await store.count(scope) for scope in {probe.scope for probe in probes}]):
            raise DataError(f"The tenant {options.tenant!r} has no passages. Name the tenant with --tenant.")
    else:
        passages = await stored_passages(store, options.queries, _SEED)
        probes = await spoken(passages, encoder, _SEED)
    return halved(probes, _SEED)


def _overridden(settings: Settings, store: TunableStore, tuned: Tuned) -> bool:
    best = tuned.choice.best.setting
    return tuned.applied and (best.index.wanted(settings.index) != best.index or store.search_spec != best.search)
