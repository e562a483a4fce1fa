"""Python's garbage collector, told what a server knows: what has been loaded by now stays until the end."""

from __future__ import annotations

import gc


def settle() -> None:
    """Takes everything there is out of the collector's sight. Call it once, when a server is ready.

    A full collection otherwise walks all that models, libraries and stores have loaded, while nothing else runs.
    """
    gc.collect()
    gc.freeze()
