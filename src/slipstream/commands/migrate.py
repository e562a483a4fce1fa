"""`slipstream migrate`: copies everything from one configured store to another, and proves that it is there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict

from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from slipstream.build import build_encoder, build_store
from slipstream.commands.fetching import provisioner
from slipstream.errors import ConfigError
from slipstream.models.base import Encoder
from slipstream.settings import DataSettings, Settings
from slipstream.stores.base import Store
from slipstream.stores.migration import Comparison, Copied, compare, copy_all
from slipstream.stores.migration_ledger import MigrationLedger

LEAST_OVERLAP = 0.9
"""Graphs are approximate on both sides, and a server with several shards weighs rare terms shard by shard."""
_SHOWN_TENANTS = 20


async def run_migrate(
    source: Settings, target: Settings, console: Console, *, samples: int, restart: bool, as_json: bool
) -> bool:
    """True when both stores hold the same and find the same. Raises ConfigError when they are one and the same."""
    names = [place(settings) for settings in (source, target)]
    if names[0] == names[1]:
        raise ConfigError(f"Both stores are {names[0]}. Name two: --from qdrant-edge --to qdrant.")
    encoder = await asyncio.to_thread(build_encoder, source, provisioner(source, console))
    ledger = MigrationLedger(source.data.dir / "migrations.sqlite", *names)
    async with _opened(source, encoder) as old, _opened(target, encoder) as new:
        try:
            with MigrationProgress(console) as progress:
                copied = await copy_all(old, new, ledger, restart=restart, on_progress=progress)
            with console.status("Comparing the two stores …"):
                await new.optimize()
                comparison = await compare(old, new, copied.tenants, samples=samples)
            if comparison.holds(LEAST_OVERLAP):
                await ledger.clear()
        finally:
            await ledger.close()
    show(copied, comparison, names[1], console)
    if as_json:
        print(json.dumps(as_document(copied, comparison, *names), ensure_ascii=False))
    return comparison.holds(LEAST_OVERLAP)


def with_store(settings: Settings, name: str) -> Settings:
    """The same settings with another store. Raises ConfigError for a name that is none."""
    try:
        data = DataSettings.model_validate({**settings.data.model_dump(), "store": name})
    except ValidationError:
        raise ConfigError(f"There is no store {name!r}: take qdrant-edge, qdrant or milvus.") from None
    return settings.model_copy(update={"data": data})


def place(settings: Settings) -> str:
    """Which store that is, the same for every run: a copy that was interrupted is found again by it."""
    match settings.data.store:
        case "qdrant":
            return f"qdrant {settings.qdrant.url}/{settings.qdrant.collection}"
        case "milvus":
            return f"milvus {settings.milvus.uri}/{settings.milvus.collection}"
        case "qdrant-edge":
            return f"qdrant-edge {settings.data.dir.resolve()}"
        case "memory":
            raise ConfigError('The store "memory" ends with its process: there is nothing to copy. Ingest instead.')


def as_document(copied: Copied, comparison: Comparison, source: str, target: str) -> dict[str, object]:
    return {
        "source": source,
        "target": target,
        "passages": copied.passages,
        "passages_this_run": copied.this_run,
        "seconds": round(copied.elapsed_s, 3),
        **asdict(comparison),
        "least_overlap": LEAST_OVERLAP,
        "holds": comparison.holds(LEAST_OVERLAP),
    }


def show(copied: Copied, comparison: Comparison, target: str, console: Console) -> None:
    rate = copied.this_run / copied.elapsed_s if copied.elapsed_s > 0 else 0.0
    console.print(
        f"[bold]{copied.this_run:,}[/] passages copied in {copied.elapsed_s:.1f} s ({rate:,.0f}/s); "
        f"{copied.passages - copied.this_run:,} by an earlier run"
    )
    table = Table("tenant", "source", "target", "")
    wrong_first = sorted(comparison.tenants, key=lambda count: (count.source == count.target, count.tenant))
    for count in wrong_first[:_SHOWN_TENANTS]:
        verdict = "[green]equal[/]" if count.source == count.target else "[red]differs[/]"
        table.add_row(count.tenant, f"{count.source:,}", f"{count.target:,}", verdict)
    console.print(table)
    if len(wrong_first) > _SHOWN_TENANTS:
        console.print(f"… and {len(wrong_first) - _SHOWN_TENANTS:,} more tenants")
    console.print(
        f"{comparison.searches} sampled searches, ten best alike: dense {comparison.dense_overlap:.1%}, "
        f"sparse {comparison.sparse_overlap:.1%}"
    )
    if comparison.holds(LEAST_OVERLAP):
        console.print(f"[green]The copy is complete.[/] {target} may be used now: set data.store.", highlight=False)
    elif comparison.differing:
        console.print(
            "[red]The stores hold different passages.[/] Something wrote meanwhile, or the target was not empty: stop "
            "ingestion, remove what is too much, and run again with --restart."
        )
    else:
        console.print(
            "[red]The stores find different passages.[/] The target may still be building its index: run again in a "
            "while, which compares once more without copying."
        )


@asynccontextmanager
async def _opened(settings: Settings, encoder: Encoder) -> AsyncIterator[Store]:
    store = build_store(settings, encoder)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


class MigrationProgress:
    """A bar with rate and time left on a terminal; nothing elsewhere."""

    def __init__(self, console: Console) -> None:
        self._bar = Progress(
            TextColumn("Copying"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f} passages · {task.fields[rate]}/s"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("copy", total=1, rate="–")

    def __enter__(self) -> MigrationProgress:
        self._bar.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._bar.stop()

    def __call__(self, copied: Copied) -> None:
        rate = f"{copied.this_run / copied.elapsed_s:,.0f}" if copied.elapsed_s > 0 and copied.this_run else "–"
        self._bar.update(self._task, completed=copied.passages, total=max(1, copied.total), rate=rate)
