"""Checks of the configured models: there, whole, unaltered."""

from __future__ import annotations

from collections.abc import Iterator

from slipstream.doctor.check import Check
from slipstream.doctor.configured import configured, status
from slipstream.errors import SlipstreamError
from slipstream.models.cache import ModelHome
from slipstream.models.catalogue import CatalogueEntry, find
from slipstream.models.hub import PREFIX
from slipstream.models.local_models import adopt_directory, gguf_in, local_path, looks_like_path
from slipstream.models.ready import ModelKind
from slipstream.settings import Settings

_STATES = {
    "ready": "ready",
    "absent": "not fetched yet",
    "partial": "fetched in part",
    "fetched": "fetched but not converted yet",
    "outdated": "converted for other versions or incomplete, and will be converted anew",
}


def check_models(settings: Settings) -> Iterator[Check]:
    for role, name, kind in configured(settings):
        yield _model(f"{role} model", name, kind, settings)


def _model(role: str, name: str, kind: ModelKind, settings: Settings) -> Check:
    if name == "fake":
        return Check(
            role, "warn", "The fake is configured: it computes nothing real.", "Name a model for real answers."
        )
    entry = find(name)
    if entry is not None and entry.kind == kind:
        return _catalogue_model(role, entry, settings)
    if name.startswith(PREFIX):
        return Check(role, "ok", f"{name} comes from the hub.")
    try:
        path = local_path(name) if looks_like_path(name) else None
        if path is not None and gguf_in(path, kind) is None:
            adopt_directory(path, kind)
    except SlipstreamError as error:
        return Check(role, "fail", error.message, "Correct the path in the settings.")
    if path is None:
        return Check(role, "fail", f"{name!r} is no {kind} of the catalogue.", "See `slipstream models list`.")
    return Check(role, "ok", f"{path} is there.")


def _catalogue_model(role: str, entry: CatalogueEntry, settings: Settings) -> Check:
    home = ModelHome(settings.models.cache_dir, entry.name)
    state, manifest = status(entry, settings).state, home.manifest()
    if state == "ready" and manifest is not None:
        damaged = manifest.damaged(home.ready_dir)
        if not damaged:
            return Check(role, "ok", f"{entry.name} is ready and its {len(manifest.files)} files are unaltered.")
        advice = f"Run `slipstream models rm {entry.name}` and `slipstream models pull {entry.name}`."
        return Check(role, "fail", f"{entry.name} is damaged: {', '.join(damaged)}.", advice)
    sentence = f"{entry.name} is {_STATES[state]}."
    if settings.models.offline and state in ("absent", "partial"):
        return Check(role, "fail", sentence, "Set models.offline to false and pull it once.")
    return Check(
        role, "warn", sentence, f"The first start fetches it; `slipstream models pull {entry.name}` does so now."
    )
