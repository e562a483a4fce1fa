"""What a ready server's collector no longer walks."""

from __future__ import annotations

import subprocess
import sys


def test_what_is_loaded_is_left_alone_and_what_comes_is_still_collected() -> None:
    """In a process of its own: freezing lasts for good."""
    program = """
import gc, weakref
from slipstream.runtime.collector import settle
class Ring: pass
settle()
assert gc.get_freeze_count() > 1000
ring = Ring(); ring.me = ring; left = weakref.ref(ring); del ring
gc.collect()
assert left() is None
"""
    subprocess.run([sys.executable, "-c", program], check=True)
