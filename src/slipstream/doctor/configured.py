"""The models that the settings name, and how far the cache is with those of the catalogue."""

from __future__ import annotations

from slipstream.models.cache import ModelHome
from slipstream.models.catalogue import CatalogueEntry, find
from slipstream.models.ready import ModelKind, ModelStatus
from slipstream.models.status import catalogue_status
from slipstream.settings import Settings


def configured(settings: Settings) -> tuple[tuple[str, str, ModelKind], ...]:
    models = settings.models
    roles: tuple[tuple[str, str | None, ModelKind], ...] = (
        ("encoder", models.encoder, "encoder"),
        ("cross-encoder", models.local_cross_encoder, "cross_encoder"),
        ("small", settings.local_llm("small"), "llm"),
        ("large", settings.local_llm("large"), "llm"),
    )
    return tuple((role, name, kind) for role, name, kind in roles if name is not None)


def entries(settings: Settings) -> tuple[CatalogueEntry, ...]:
    found = (find(name) for _, name, _ in configured(settings))
    return tuple(entry for entry in found if entry is not None)


def status(entry: CatalogueEntry, settings: Settings) -> ModelStatus:
    return catalogue_status(entry, ModelHome(settings.models.cache_dir, entry.name))
