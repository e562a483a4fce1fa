"""Protocol of the place where answers are stored; every adapter passes one contract suite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from slipstream.cache.entry import EntriesInfo, Entry, Feedback, Neighbour, Purge
from slipstream.types import Vector


class Entries(Protocol):
    """Bounded by bytes and by age. Raises Unavailable when it cannot be reached: the caller takes that for a miss."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def exact(self, scope: str, text: str) -> Entry | None:
        """The answer to these very words."""
        ...

    async def nearest(self, scope: str, vector: Vector, limit: int) -> Sequence[Neighbour]:
        """Stored questions of a scope by cosine, best first."""
        ...

    async def get(self, entry_ids: Sequence[str]) -> Sequence[Entry]:
        """Those that are still there, in the order named."""
        ...

    async def put(self, entry: Entry) -> None:
        """Stores; an entry with the same scope and text is replaced. What exceeds the bounds is evicted."""
        ...

    async def hit(self, entry_id: str) -> None:
        """Notes that an entry served: those that save most per byte are kept longest."""
        ...

    async def purge(self, tenant: str, which: Purge) -> int:
        """Drops entries of one tenant; returns how many."""
        ...

    async def record(self, feedback: Feedback) -> None:
        """Keeps what a reader said, for calibration."""
        ...

    async def info(self, tenant: str | None = None) -> EntriesInfo: ...
