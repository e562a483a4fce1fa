"""Graphs compiled by OpenVINO for this machine's processor."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeAlias

import openvino as ov

from slipstream.errors import ConfigError

Precision: TypeAlias = Literal["f32", "bf16"]


def compiled(graph: Path, role: str, *, threads: int, streams: int, precision: Precision, **more: int) -> Any:
    """The graph, ready for infer requests; `more` are options of the CPU plug-in, by their names there.

    Raises ConfigError, which says that it cannot be loaded as `role`.
    """
    options = {
        "NUM_STREAMS": streams,
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": precision,
        "ENABLE_CPU_PINNING": False,  # a thread bound to one core waits behind whatever else runs there
        **more,
    }
    try:
        return ov.Core().compile_model(graph, "CPU", options)
    except RuntimeError as error:
        raise ConfigError(f"{graph} cannot be loaded as {role}: {error}") from None
