"""The process that holds a Qdrant Edge shard: reads requests from its input, answers on its output, in order.

It ends when its input does, so it never outlives the server that started it by more than one operation; a rebuild,
whose one operation takes minutes, ends with the server where the system can do that (Linux).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from slipstream.errors import Bug, DataError, SlipstreamError, Unavailable
from slipstream.stores.edge_protocol import Reply, Request, pack, read_request
from slipstream.stores.edge_shard import EdgeShard

_PR_SET_PDEATHSIG = 1
"""From linux/prctl.h."""
_PREDECESSOR_S = 20.0
"""How long a killed server's host may still need for the operation it is in."""


class EdgeHost:
    """Runs requests against the one shard it holds."""

    def __init__(self) -> None:
        self._shard: EdgeShard | None = None
        self._lock: FileLock | None = None

    def answer(self, request: Request) -> Reply:
        try:
            return Reply(request.number, self._run(request.operation, request.arguments))
        except SlipstreamError as error:
            return Reply(request.number, error=error)
        except Exception as error:  # the engine raises bare Exception for everything
            return Reply(request.number, error=_mapped(request.operation, error), detail=str(error))

    def _hold(self, shard: Path) -> None:
        """Waits for the host of a killed server to end what it was doing; kept as long as this process lives."""
        self._lock = FileLock(f"{shard}.lock", timeout=_PREDECESSOR_S)
        try:
            self._lock.acquire()
        except Timeout:
            raise Unavailable(f"Another process still holds {shard}. Stop it, then start again.") from None

    def _run(self, operation: str, arguments: tuple[Any, ...]) -> Any:
        if operation in {"create", "load"}:
            self._hold(arguments[0])
            self._shard = getattr(EdgeShard, operation)(*arguments)
            return None
        if self._shard is None:
            raise Bug("The store process was asked for work before it held a shard.")
        return getattr(self._shard, operation)(*arguments)


def _mapped(operation: str, error: Exception) -> SlipstreamError:
    text = str(error)
    if "No space left" in text or "os error 28" in text or "StorageFull" in text:
        return Unavailable("The disk with the data directory is full. Free some space; nothing acknowledged is lost.")
    if operation == "load":
        return DataError(
            "The stored passages cannot be opened; the log has the cause. Restore the data directory or ingest again."
        )
    if isinstance(error, ValueError | TypeError | OverflowError | UnicodeError):
        return DataError("The store cannot keep or look up a value of this request; the server's log names it.")
    return Bug(f"The store failed during {operation}; the log has the cause.")


def _end_with_parent() -> None:
    """The engine keeps the interpreter lock while it optimizes, so only the kernel can end us then."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    niceness = int(sys.argv[1])
    if niceness:
        _end_with_parent()
    os.nice(niceness)
    for number in (signal.SIGINT, signal.SIGTERM):  # these reach the whole group; the server closes us in order
        signal.signal(number, signal.SIG_IGN)
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not end up between replies
    host = EdgeHost()
    while (request := read_request(sys.stdin.buffer)) is not None:
        reply = host.answer(request)
        try:
            replies.write(pack(reply))
            replies.flush()
        except BrokenPipeError:
            return
        if request.operation == "close":
            return


if __name__ == "__main__":
    main()
