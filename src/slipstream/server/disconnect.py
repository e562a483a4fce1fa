"""Races work against the client's leaving, so that nobody computes for someone who has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from starlette.types import Receive

from slipstream.errors import Bug


class ClientLeft(Exception):
    """The client closed the connection before it had the whole response: there is nobody to tell."""


async def while_connected(receive: Receive, work: Callable[[], Awaitable[None]]) -> None:
    """Runs `work` and cancels it as soon as the client disconnects; `receive` must be past the request's body.

    One bare task instead of a task group: this is on the path of every request, and costs a fifth.
    Raises ClientLeft, or what `work` raises.
    """
    worker = asyncio.current_task()
    if worker is None:
        raise Bug("while_connected runs inside a task.")
    watcher = asyncio.create_task(_cancel_when_left(receive, worker))
    try:
        await work()
    except asyncio.CancelledError:
        if watcher.done() and not watcher.cancelled() and worker.uncancel() == 0:
            raise ClientLeft from None
        raise
    finally:
        watcher.cancel()


async def _cancel_when_left(receive: Receive, worker: asyncio.Task[object]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    worker.cancel()
