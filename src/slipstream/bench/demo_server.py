"""The product with its real models over the demo corpus, as a process: what the claims about answers measure."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
from rich.console import Console

from slipstream.bench.process import Running, slipstream_server
from slipstream.commands.ask import http_client
from slipstream.commands.demo import COLLECTION, TENANT, demo_settings, ingest_corpus
from slipstream.commands.local import local_service
from slipstream.settings import Settings

OPTIONS = {"tenant": TENANT, "collections": [COLLECTION]}


@dataclass(frozen=True, slots=True)
class DemoServer:
    running: Running
    http: httpx.AsyncClient


@asynccontextmanager
async def demo_server(settings: Settings, environment: Mapping[str, str] | None = None) -> AsyncIterator[DemoServer]:
    """Ready, with the corpus ingested; the data directory is the demo's own."""
    here = demo_settings(settings)
    quiet = Console(quiet=True)
    without = here.model_copy(update={"models": here.models.model_copy(update={"small": None, "large": None})})
    async with local_service(without, quiet) as service:
        await ingest_corpus(service, quiet)
    own = {
        "SLIPSTREAM_MODELS__CACHE_DIR": str(here.models.cache_dir),
        **({"SLIPSTREAM_MODELS__LARGE": here.models.large} if here.models.large else {}),
        **(environment or {}),
    }
    async with slipstream_server(here.data.dir, own) as running, http_client(running.base, here) as http:
        yield DemoServer(running, http)
