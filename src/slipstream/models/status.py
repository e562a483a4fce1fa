"""Says how far each model of the catalogue and the cache is, without reading weights."""

from __future__ import annotations

from slipstream.models.cache import ModelHome
from slipstream.models.catalogue import CatalogueEntry
from slipstream.models.fetch import partial_path
from slipstream.models.ready import ModelState, ModelStatus


def catalogue_status(entry: CatalogueEntry, home: ModelHome) -> ModelStatus:
    packages = [part.requirement for part in entry.parts]
    return ModelStatus(
        name=entry.name,
        kind=entry.kind,
        state=_catalogue_state(entry, home),
        bytes_on_disk=home.size_bytes(),
        download_bytes=entry.download_bytes,
        languages=entry.languages,
        licence=entry.licence,
        title=entry.title,
        source=packages[0] if len(packages) == 1 else f"{packages[0]} … {packages[-1]}",
    )


def other_status(home: ModelHome) -> ModelStatus:
    """A model that came from a file or a hub."""
    manifest = home.manifest()
    return ModelStatus(
        name=home.name,
        kind=manifest.kind if manifest else "llm",
        state=_state(home, manifest.source if manifest else "") or "partial",
        bytes_on_disk=home.size_bytes(),
        download_bytes=0,
        languages=frozenset(manifest.languages) if manifest else frozenset(),
        licence=manifest.licence if manifest else "unknown",
        title=home.name,
        source=manifest.source if manifest else "unfinished",
    )


def _catalogue_state(entry: CatalogueEntry, home: ModelHome) -> ModelState:
    made = _state(home, f"sha256:{entry.sha256}")
    if made is not None:
        return made
    if (home.source_dir / entry.file_name).exists():
        return "fetched"
    return "partial" if partial_path(entry, home.source_dir).exists() else "absent"


def _state(home: ModelHome, source: str) -> ModelState | None:
    if home.manifest() is None:
        return None
    return "ready" if home.ready(source) else "outdated"
