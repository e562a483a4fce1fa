"""Starts the service beside the listening server, and stops it after the last exchange."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from slipstream.server.base import Service

log = logging.getLogger("slipstream.server")


class Lifespan:
    """The server listens while the service still warms up: probes get an answer, requests a 503 with the reason."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.failure: BaseException | None = None
        """Why the service did not start."""
        self.on_failure: Callable[[], None] = lambda: None
        self.on_ready: Callable[[], None] = lambda: None

    @asynccontextmanager
    async def __call__(self, app: object) -> AsyncIterator[None]:
        starting = asyncio.create_task(self._start(), name="slipstream-start")
        try:
            yield
        finally:
            starting.cancel()
            await asyncio.wait([starting])
            await self._service.stop()

    async def _start(self) -> None:
        try:
            await self._service.start()
            self.on_ready()
        except Exception as error:
            log.critical("The service could not start: %s", error)
            self.failure = error
            self.on_failure()
