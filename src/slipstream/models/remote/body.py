"""The response to a generation as it is read, whichever way it came."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Body(Protocol):
    """An answer on its way."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """By lower-case name."""
        ...

    async def read(self) -> bytes:
        """What has come since; empty at the end. Raises Fault when the connection breaks."""
        ...

    async def close(self) -> None:
        """Ends the exchange; where it is not over, the connection with it, which the server takes as a farewell."""
        ...


class Opener(Protocol):
    """A way to a replica."""

    async def open(self, body: bytes, request_id: str) -> Body:
        """Posts a generation; the body of the response is not yet read. Raises Fault."""
        ...

    async def close(self) -> None: ...
