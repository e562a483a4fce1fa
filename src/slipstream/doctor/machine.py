"""Checks of the machine: interpreter, processor, memory."""

from __future__ import annotations

import platform
from collections.abc import Iterator

from slipstream.doctor.check import Check
from slipstream.doctor.configured import configured, entries
from slipstream.doctor.facts import cpu_features, memory_bytes, usable_cores
from slipstream.settings import Settings

_GIB = 1 << 30


def check_machine(settings: Settings) -> Iterator[Check]:
    yield Check("python", "ok", f"Python {platform.python_version()} on {platform.system()} {platform.machine()}.")
    yield _processor()
    yield _memory(settings)


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
    llms = [name for _, name, kind in configured(settings) if kind == "llm" and name != "fake"]
    weights = sum(entry.converted_bytes for entry in entries(settings))
    needed = int(weights * 1.5 + len(llms) * settings.engine.kv_cache_gib * _GIB) + _GIB // 2
    free, total = memory_bytes()
    sentence = (
        f"{free / _GIB:.1f} of {total / _GIB:.1f} GiB free; the configured models want about {needed / _GIB:.1f}."
    )
    if free >= needed:
        return Check("memory", "ok", sentence)
    return Check("memory", "warn", sentence, "Lower engine.kv_cache_gib, leave out the large model, or free memory.")
