"""Files and folders → a running server: the walk, the progress and the report of an ingestion here."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import httpx

from slipstream.commands.client import failure, unreachable
from slipstream.ingest.ledger import DocumentRecord
from slipstream.ingest.report import DocumentResult, IngestReport, OnEvent, Problem, Tally
from slipstream.ingest.walk import FoundFile, walk

Sleep = Callable[[float], Awaitable[None]]

_TRIES = 6
_LONGEST_WAIT_S = 60.0
_BUSY = frozenset({httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE})


async def upload(
    http: httpx.AsyncClient,
    paths: Sequence[Path],
    *,
    tenant: str,
    collection: str,
    max_bytes: int,
    on_event: OnEvent | None = None,
    sleep: Sleep = anyio.sleep,
) -> IngestReport:
    """Sends each file; one that the server refuses is reported and the rest goes on.

    A server that is busy is asked again when it says so. Raises Unavailable when there is none.
    """
    tally = Tally(on_event)
    found = list(walk(paths, max_bytes))
    files = [entry for entry in found if isinstance(entry, FoundFile)]
    tally.files_total, tally.bytes_total = len(files), sum(file.size for file in files)
    tally.tell("started")
    for entry in found:
        if isinstance(entry, Problem):
            _leave_alone(entry, tally)
        else:
            await _send(http, entry, {"tenant": tenant, "collection": collection}, tally, sleep)
    return tally.report()


def _leave_alone(problem: Problem, tally: Tally) -> None:
    if problem.code == "unreadable":
        tally.failed(problem.name, problem.reason, problem.code)
    else:
        tally.skipped(problem)


async def _send(http: httpx.AsyncClient, file: FoundFile, place: dict[str, str], tally: Tally, sleep: Sleep) -> None:
    try:
        data = file.path.read_bytes()
    except OSError as error:
        tally.failed(file.id, f"The file cannot be read: {error.strerror}.", "unreadable", file.size)
        return
    fields = {**place, "name": file.id, "time": str(file.time)}
    response = await _post(http, fields, data, sleep)
    if response.is_success:
        tally.done(_result(response.json(), place["tenant"]), file.size)
    else:
        error_there = failure(response)
        tally.failed(file.id, error_there.message, error_there.code, file.size)


async def _post(http: httpx.AsyncClient, fields: dict[str, str], data: bytes, sleep: Sleep) -> httpx.Response:
    for tries_left in reversed(range(_TRIES)):
        try:
            response = await http.post("/v1/documents", data=fields, files={"file": ("file", data)})
        except httpx.TransportError as error:
            raise unreachable(http, error) from None
        if response.status_code not in _BUSY or not tries_left:
            break
        await sleep(_wait_s(response))
    return response


def _wait_s(response: httpx.Response) -> float:
    """What Retry-After says, within reason; a second when it says nothing we read."""
    try:
        asked_s = float(response.headers.get("retry-after", ""))
    except ValueError:
        return 1.0
    return min(max(asked_s, 0.0), _LONGEST_WAIT_S) if math.isfinite(asked_s) else 1.0


def _result(body: dict[str, Any], tenant: str) -> DocumentResult:
    record = DocumentRecord(
        tenant,
        body["collection"],
        body["id"],
        "ready",
        body["version"],
        passages=body["passages"],
        title=body["title"],
        source=body["source"],
        type=body["type"],
        time=body["time"],
    )
    return DocumentResult(record, body["outcome"])
