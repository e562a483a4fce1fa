"""`slipstream ingest`: indexes files with a progress bar, here or through a running server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from slipstream.commands.ask import http_client
from slipstream.commands.local import local_service
from slipstream.commands.upload import upload
from slipstream.errors import ConfigError
from slipstream.ingest.progress import IngestProgress
from slipstream.ingest.run import IngestReport
from slipstream.settings import Settings


async def run_ingest(
    settings: Settings,
    paths: Sequence[Path],
    *,
    tenant: str,
    collection: str,
    prune: bool,
    server: str | None,
    console: Console,
    as_json: bool,
) -> bool:
    """True when a file failed: the others are indexed all the same. Raises ConfigError for prune with a server."""
    if server is None:
        report = await _ingested(settings, paths, tenant=tenant, collection=collection, prune=prune, console=console)
    elif prune:
        raise ConfigError(
            "--prune goes with the data directory, not with --server: a server does not know which files were yours. "
            "Delete documents there with DELETE /v1/documents/{id}."
        )
    else:
        report = await _uploaded(settings, paths, tenant=tenant, collection=collection, server=server, console=console)
    show_report(report, console)
    if as_json:
        print(json.dumps(asdict(report), ensure_ascii=False))
    return bool(report.failed)


async def _ingested(
    settings: Settings, paths: Sequence[Path], *, tenant: str, collection: str, prune: bool, console: Console
) -> IngestReport:
    without_models = settings.model_copy(
        update={"models": settings.models.model_copy(update={"small": None, "large": None})}
    )
    async with local_service(without_models, console) as service:
        with IngestProgress(console) as progress:
            report = await service.parts.ingestor.ingest_paths(
                paths, tenant=tenant, collection=collection, prune=prune, on_event=progress
            )
        await service.parts.store.optimize()
    return report


def show_report(report: IngestReport, console: Console) -> None:
    indexed = len(report.added) + len(report.updated)
    console.print(
        f"[bold]{report.passages}[/] passages of {indexed} documents in {report.seconds:.1f} s; "
        f"{len(report.unchanged)} unchanged, {len(report.removed)} removed, {len(report.failed)} failed"
    )
    for failed in report.failed:
        console.print(f"  [red]{failed.name}[/]: {failed.reason}", highlight=False)


async def _uploaded(
    settings: Settings, paths: Sequence[Path], *, tenant: str, collection: str, server: str, console: Console
) -> IngestReport:
    max_bytes = min(settings.ingest.max_file_mib, settings.server.max_body_mib) << 20
    async with http_client(server, settings) as http:
        with IngestProgress(console) as progress:
            return await upload(
                http, paths, tenant=tenant, collection=collection, max_bytes=max_bytes, on_event=progress
            )
