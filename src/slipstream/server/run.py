"""Runs the application on uvicorn, and ends it without cutting answers short."""

from __future__ import annotations

import socket

import uvicorn

from slipstream.runtime import collector
from slipstream.server.front import Front
from slipstream.settings import ServerSettings

GRACE_S = 30
"""How long running answers may go on after the signal to stop."""
KEEP_ALIVE_S = 75


class Server(uvicorn.Server):
    """Refuses new requests on open connections as soon as it shuts down."""

    def __init__(self, app: Front, settings: ServerSettings, *, grace_s: int = GRACE_S) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                host=settings.host,
                port=settings.port,
                loop="uvloop",
                http="httptools",
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=grace_s,
            )
        )
        self._app = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.stop_admitting()
        await super().shutdown(sockets)


def serve(app: Front, settings: ServerSettings, *, grace_s: int = GRACE_S) -> None:
    """Blocks until a signal ends the server. Raises what kept the service from starting."""
    server = Server(app, settings, grace_s=grace_s)

    def stop() -> None:
        server.should_exit = True

    app.lifespan.on_failure = stop
    app.lifespan.on_ready = collector.settle
    server.run()
    if app.lifespan.failure is not None:
        raise app.lifespan.failure
