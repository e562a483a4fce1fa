"""Makes models ready to load: found or fetched, verified, converted once, kept in a cache that processes share."""

from __future__ import annotations

from pathlib import Path

from slipstream.errors import ConfigError
from slipstream.models.cache import ModelHome, homes
from slipstream.models.catalogue import CATALOGUE, entry_named, find
from slipstream.models.hub import PREFIX, parse_hub_ref
from slipstream.models.local_models import adopt_directory, gguf_in, local_path, looks_like_path
from slipstream.models.manifest import write_manifest
from slipstream.models.ready import (
    ModelKind,
    ModelStatus,
    Progress,
    ProgressSink,
    ReadyModel,
    Step,
    ignore_progress,
)
from slipstream.models.recipe import CatalogueRecipe, GgufRecipe, HubRecipe, Recipe
from slipstream.models.status import catalogue_status, other_status

__all__ = ["ModelStatus", "Provisioner", "ReadyModel"]


class Provisioner:
    """Blocking; run it on a worker. Any number of processes may share the cache directory."""

    def __init__(self, cache_dir: Path, *, offline: bool = False, progress: ProgressSink | None = None) -> None:
        self._cache_dir = cache_dir.expanduser().absolute()
        self._offline = offline
        self._progress = progress or ignore_progress

    def ensure(self, ref: str, kind: ModelKind) -> ReadyModel:
        """The model a reference names, fetched and converted if need be; milliseconds when it is ready.

        `ref` is a catalogue name, a GGUF file, a directory with an OpenVINO IR (or ONNX), or
        `hf:organisation/repository`. Raises ConfigError for what only the user can change (a wrong name or file,
        offline, a full disk), Unavailable when the index or the hub cannot be reached, DataError when what was
        fetched is not what it should be.
        """
        if looks_like_path(ref):
            path = local_path(ref)
            gguf = gguf_in(path, kind)
            if gguf is None:
                return adopt_directory(path, kind)
            return self.prepare(_of_kind(GgufRecipe(gguf), kind))
        if ref.startswith(PREFIX):
            return self.prepare(HubRecipe(parse_hub_ref(ref), kind))
        return self.prepare(_of_kind(CatalogueRecipe(entry_named(ref)), kind))

    def list(self) -> list[ModelStatus]:
        """The catalogue, then what else the cache holds."""
        others = [home for home in homes(self._cache_dir) if find(home.name) is None]
        catalogue = [catalogue_status(entry, ModelHome(self._cache_dir, entry.name)) for entry in CATALOGUE]
        return catalogue + [other_status(home) for home in others]

    def remove(self, name: str) -> int:
        """Removes what the cache has of a model, by the name `list` gives; returns the bytes freed.

        A process that has the model loaded keeps running. Raises ConfigError when the cache has nothing of it.
        """
        home = next((home for home in homes(self._cache_dir) if home.name == name), None)
        if home is None:
            raise ConfigError(f"The cache holds no model {name!r}. `slipstream models list` shows what it holds.")
        return home.remove()

    def prepare(self, recipe: Recipe) -> ReadyModel:
        """The model that a recipe makes, made now if need be; at most one process makes it, the others wait."""
        home = ModelHome(self._cache_dir, recipe.name)
        identity = recipe.identity()
        ready = home.ready(identity)
        if ready is not None:
            return ready
        last: Step = "failed"
        try:
            with home.locked(on_wait=lambda: self._tell(recipe, "wait")):
                ready = home.ready(identity) or self._made(recipe, home, identity)
            last = "ready"
            return ready
        finally:
            self._tell(recipe, last)

    def _made(self, recipe: Recipe, home: ModelHome, identity: str) -> ReadyModel:
        if self._offline and recipe.needs_network(home.source_dir):
            raise ConfigError(
                f"{recipe.title} is not in {self._cache_dir} and models.offline forbids fetching it. "
                f"Run `slipstream models pull` once with the network on, or copy that directory from another machine."
            )
        files = recipe.obtain(home.source_dir, home.work_path(), self._progress)
        self._tell(recipe, "convert")
        made = home.work_path()
        made.mkdir()
        recipe.make(files, made)
        manifest = write_manifest(made, recipe, identity, recipe.describe(files))
        home.install(made)
        return manifest.ready(home.ready_dir)

    def _tell(self, recipe: Recipe, step: Step) -> None:
        self._progress(Progress(recipe.title, step))


_KINDS: dict[ModelKind, str] = {
    "encoder": "an encoder",
    "cross_encoder": "a cross-encoder",
    "llm": "a language model",
}


def _of_kind(recipe: Recipe, kind: ModelKind) -> Recipe:
    if recipe.kind != kind:
        given, wanted = _KINDS[recipe.kind], _KINDS[kind]
        raise ConfigError(f"{recipe.title} is {given}, and {wanted} is needed there. Name another in the settings.")
    return recipe
