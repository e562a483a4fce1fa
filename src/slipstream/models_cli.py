"""`slipstream models`: what there is, fetch, remove."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.filesize import decimal
from rich.progress import (
    BarColumn,
    DownloadColumn,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.progress import Progress as Bars
from rich.table import Table

if TYPE_CHECKING:
    from slipstream.models.provision import Provisioner
    from slipstream.models.ready import ModelKind, ModelStatus, Progress, Step
    from slipstream.settings import ModelsSettings, Settings

app = typer.Typer(help="List, fetch and remove models.", no_args_is_help=True, rich_markup_mode="markdown")

Config = Annotated[Path | None, typer.Option("--config", help="Settings file; default `slipstream.toml` here.")]

_SAID: dict[Step, str] = {
    "wait": "waiting for another process",
    "fetch": "fetching",
    "verify": "verifying",
    "convert": "converting",
    "ready": "ready",
    "failed": "failed",
}
_STATE_STYLES = {"ready": "green", "outdated": "yellow", "fetched": "yellow", "partial": "yellow", "absent": "dim"}


@app.command("list", epilog="Examples: `slipstream models list`, `slipstream models list --json`")
def list_models(
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """The catalogue and what the cache holds: state, size, languages, licence."""
    settings = _settings(config)
    models = _provisioner(settings).list()
    if as_json:
        typer.echo(json.dumps([_as_json(model) for model in models], ensure_ascii=False, indent=2))
        return
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in ("name", "kind", "state", "size", "languages", "licence"):
        table.add_column(column, no_wrap=column == "name")
    for model in models:
        table.add_row(*_cells(model))
    console = Console()
    console.print(f"Models in [bold]{settings.models.cache_dir}[/]", highlight=False)
    console.print(table)


@app.command(
    epilog="Examples: `slipstream models pull` (what the settings name), "
    "`slipstream models pull qwen2.5-coder-1.5b-instruct`, `slipstream models pull ~/models/some.gguf`"
)
def pull(
    names: Annotated[
        list[str] | None, typer.Argument(help="Catalogue names, GGUF files or hf:… references; none: the settings'.")
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="`encoder`, `cross-encoder` or `llm`, where the name does not tell.")
    ] = None,
    config: Config = None,
) -> None:
    """Fetch, verify and convert models, so that the next start needs no network. Interrupted pulls go on."""
    settings = _settings(config)
    console = Console()
    provisioner = _provisioner(settings, RichProgress(console))
    for name, its_kind in _wanted(settings, names or [], kind):
        ready = provisioner.ensure(name, its_kind)
        console.print(f"[green]✓[/] [bold]{ready.name}[/] in {ready.path}", highlight=False, soft_wrap=True)


@app.command(epilog="Example: `slipstream models rm qwen2.5-coder-1.5b-instruct`")
def rm(
    names: Annotated[list[str], typer.Argument(help="Names as `slipstream models list` gives them.")],
    config: Config = None,
) -> None:
    """Remove models from the cache. Programs that have one loaded keep running."""
    provisioner = _provisioner(_settings(config))
    for name in names:
        Console().print(f"Removed {name}: {decimal(provisioner.remove(name))} freed.", highlight=False)


class RichProgress:
    """Shows what provisioning does on a terminal, with rate and ETA; one line a step where there is no terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bars: Bars | None = None
        self._shown: tuple[str, Step] | None = None
        self._task = TaskID(0)

    def __call__(self, progress: Progress) -> None:
        if progress.step in ("ready", "failed"):
            self._end()
            return
        if self._shown != (progress.model, progress.step):
            self._begin(progress)
        if self._bars is not None:
            self._bars.update(self._task, completed=progress.done_bytes, total=progress.total_bytes)

    def _begin(self, progress: Progress) -> None:
        self._end()
        self._shown = (progress.model, progress.step)
        said = f"{_SAID[progress.step]} [bold]{progress.model}[/]"
        if not self._console.is_terminal:
            size = f" ({decimal(progress.total_bytes)})" if progress.total_bytes else ""
            self._console.print(f"{said}{size}", highlight=False)
            return
        self._bars = Bars(*_columns(progress), console=self._console, transient=progress.step != "fetch")
        self._bars.start()
        self._task = self._bars.add_task(said, total=progress.total_bytes)

    def _end(self) -> None:
        if self._bars is not None:
            self._bars.stop()
        self._bars, self._shown = None, None


def _columns(progress: Progress) -> list[Any]:
    said = TextColumn("{task.description}")
    if progress.total_bytes is None:
        return [SpinnerColumn(), said, TimeElapsedColumn()]
    return [said, BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()]


def _wanted(settings: Settings, names: list[str], kind: str | None) -> list[tuple[str, ModelKind]]:
    models = settings.models
    if not names:
        configured: list[tuple[str | None, ModelKind]] = [
            (models.encoder, "encoder"),
            (models.local_cross_encoder, "cross_encoder"),
            (settings.local_llm("small"), "llm"),
            (settings.local_llm("large"), "llm"),
        ]
        return [(name, its_kind) for name, its_kind in configured if name is not None and name != "fake"]
    return [(name, _kind(name, kind, models)) for name in names]


def _kind(name: str, given: str | None, models: ModelsSettings) -> ModelKind:
    from slipstream.errors import ConfigError
    from slipstream.models.catalogue import find

    kinds: dict[str, ModelKind] = {"encoder": "encoder", "cross-encoder": "cross_encoder", "llm": "llm"}
    if given is not None and given not in kinds:
        raise ConfigError(f"--kind is `encoder`, `cross-encoder` or `llm`, not {given!r}.")
    entry = find(name)
    if entry is not None:
        return entry.kind
    named: dict[str | None, ModelKind] = {models.cross_encoder: "cross_encoder", models.encoder: "encoder"}
    return kinds[given] if given is not None else named.get(name, "llm")


def _cells(model: ModelStatus) -> tuple[str, ...]:
    style = _STATE_STYLES[model.state]
    return (
        f"[bold]{model.name}[/]",
        model.kind,
        f"[{style}]{model.state}[/]",
        decimal(model.bytes_on_disk) if model.bytes_on_disk else f"{decimal(model.download_bytes)} to fetch",
        ", ".join(sorted(model.languages, key=lambda language: (language == "other", language))),
        model.licence,
    )


def _as_json(model: ModelStatus) -> dict[str, Any]:
    return {
        "name": model.name,
        "title": model.title,
        "kind": model.kind,
        "state": model.state,
        "bytes_on_disk": model.bytes_on_disk,
        "download_bytes": model.download_bytes,
        "languages": sorted(model.languages),
        "licence": model.licence,
        "source": model.source,
    }


def _settings(config: Path | None) -> Settings:
    from slipstream.settings import load_settings

    return load_settings(config)


def _provisioner(settings: Settings, progress: RichProgress | None = None) -> Provisioner:
    from slipstream.models.provision import Provisioner

    return Provisioner(settings.models.cache_dir, offline=settings.models.offline, progress=progress)
