"""`slipstream serve`: builds the program and runs it behind the server."""

from __future__ import annotations

import logging

from slipstream.build import build
from slipstream.commands.fetching import provisioner
from slipstream.observe.logs import configure_logging
from slipstream.server.app import create_app
from slipstream.server.run import serve
from slipstream.settings import Settings, server_settings

log = logging.getLogger("slipstream")


def run_server(settings: Settings, *, host: str | None, port: int | None) -> None:
    """Blocks until a signal ends the server."""
    changes = {key: value for key, value in (("host", host), ("port", port)) if value is not None}
    if changes:
        settings = settings.model_copy(update={"server": server_settings(settings.server, changes)})
    configure_logging(settings.server.log_format, secrets=[key.key for key in settings.server.api_keys])
    service = build(settings, provisioner(settings))
    log.info("Listening on http://%s:%d; ready once the models are warm.", settings.server.host, settings.server.port)
    serve(create_app(service), settings.server)
