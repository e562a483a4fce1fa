"""The product in this process with its real encoder and the shipped fake model: what the cache claims ask."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from slipstream.bench.datasets import shipped
from slipstream.build import build
from slipstream.errors import Bug
from slipstream.service import Slipstream
from slipstream.settings import AdmissionSettings, CacheSettings, Settings
from slipstream.types import Answer, Finished, Found, Question, Scope

TENANT = "prove"
_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Asked:
    answer: Answer
    found: Found | None

    @property
    def status(self) -> str:
        return self.answer.cache.status if self.answer.cache is not None else "off"

    @property
    def level(self) -> str:
        return (self.answer.cache.level or "") if self.answer.cache is not None else ""


def cache_settings(
    settings: Settings, directory: Path, *, encoder: str | None = None, store: str | None = None
) -> Settings:
    """The reader's own settings with a data directory to itself, and a model that costs nothing."""
    models = {"small": "fake", "large": None, **({"encoder": encoder} if encoder else {})}
    return settings.model_copy(
        update={
            "data": settings.data.model_copy(update={"dir": directory, **({"store": store} if store else {})}),
            "models": settings.models.model_copy(update=models),
            "admission": AdmissionSettings(max_tokens=1_000_000, max_queued_tokens=1_000_000),
            "cache": CacheSettings(min_cost_ms=0, thresholds=settings.cache.thresholds),
        }
    )


@asynccontextmanager
async def cache_service(settings: Settings) -> AsyncIterator[Slipstream]:
    service = await asyncio.to_thread(build, settings)
    try:
        await service.start()
        yield service
    finally:
        await service.stop()


async def put(service: Slipstream, name: str, text: str, tenant: str = TENANT, collection: str = "default") -> None:
    call = service.open_call(tenant, 3_600_000, None)
    await service.ingest(name, text.encode(), call, collection=collection)


async def put_set(service: Slipstream, name: str) -> None:
    """Each paragraph of a shipped set as a document, in a collection of the set's name."""
    waiting = iter(list(enumerate(shipped(name).passages)))

    async def some() -> None:
        for index, text in waiting:
            await put(service, f"{name}-{index}.txt", text, collection=name)

    await asyncio.gather(*(some() for _ in range(_AT_ONCE)))


async def ask(
    service: Slipstream, text: str, *, tenant: str = TENANT, collections: Iterable[str] = (), **options: object
) -> Asked:
    call = service.open_call(tenant, 600_000, None)
    question = Question(text, Scope(tenant, tuple(collections)), **options)  # type: ignore[arg-type]
    found: Found | None = None
    async with service.answer(question, call) as events:
        async for event in events:
            if isinstance(event, Found):
                found = event
            elif isinstance(event, Finished):
                return Asked(event.answer, found)
    raise Bug("The answer ended without being finished.", code="generation_cut_short")


async def written(service: Slipstream) -> None:
    """Returns when the cache has stored what it was given."""
    cache = service.parts.cache
    if cache is None:
        raise Bug("The service was built without an answer cache.")
    await cache.written()


def environment(settings: Settings, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The same product as a process."""
    return {
        "SLIPSTREAM_MODELS__CACHE_DIR": str(settings.models.cache_dir),
        "SLIPSTREAM_MODELS__ENCODER": settings.models.encoder,
        "SLIPSTREAM_MODELS__SMALL": "fake",
        "SLIPSTREAM_ADMISSION__MAX_TOKENS": "1000000",
        "SLIPSTREAM_ADMISSION__MAX_QUEUED_TOKENS": "1000000",
        "SLIPSTREAM_CACHE__MODE": "auto",
        "SLIPSTREAM_CACHE__MIN_COST_MS": "0",
        **(extra or {}),
    }
