"""`slipstream ingest`: indexes files with a progress bar, here or through a running server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import httpx
from rich.console import Console

from slipstream.commands.ask import http_client
from slipstream.commands.client import failure, unreachable
from slipstream.commands.local import local_service
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
    """True when a file failed: the others are indexed all the same."""
    if server is not None:
        return await _upload(settings, paths, tenant=tenant, collection=collection, server=server, console=console)
    without_models = settings.model_copy(
        update={"models": settings.models.model_copy(update={"small": None, "large": None})}
    )
    async with local_service(without_models, console) as service:
        with IngestProgress(console) as progress:
            report = await service.parts.ingestor.ingest_paths(
                paths, tenant=tenant, collection=collection, prune=prune, on_event=progress
            )
        await service.parts.store.optimize()
    show_report(report, console)
    if as_json:
        print(json.dumps(asdict(report), ensure_ascii=False))
    return bool(report.failed)


def show_report(report: IngestReport, console: Console) -> None:
    indexed = len(report.added) + len(report.updated)
    console.print(
        f"[bold]{report.passages}[/] passages of {indexed} documents in {report.seconds:.1f} s; "
        f"{len(report.unchanged)} unchanged, {len(report.removed)} removed, {len(report.failed)} failed"
    )
    for failed in report.failed:
        console.print(f"  [red]{failed.name}[/]: {failed.reason}", highlight=False)


async def _upload(
    settings: Settings, paths: Sequence[Path], *, tenant: str, collection: str, server: str, console: Console
) -> bool:
    files = [
        file
        for path in paths
        for file in ([path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file()))
    ]
    failures = 0
    async with http_client(server, settings) as http:
        for file in files:
            root = next((path for path in paths if path.is_dir() and path in file.parents), file.parent)
            name = file.relative_to(root).as_posix()
            data = {"tenant": tenant, "collection": collection}
            try:
                response = await http.post("/v1/documents", data=data, files={"file": (name, file.read_bytes())})
            except httpx.TransportError as error:
                raise unreachable(http, error) from None
            if response.is_success:
                console.print(f"  {name}: indexed", highlight=False)
            else:
                failures += 1
                console.print(f"  [red]{name}[/]: {failure(response).message}", highlight=False)
    return failures > 0
