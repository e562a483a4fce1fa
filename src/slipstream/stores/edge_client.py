"""The server's side of a process that holds a Qdrant Edge shard: start it, ask it, notice its death."""

from __future__ import annotations

import asyncio
import itertools
import logging
import sys
from typing import Any

from slipstream.errors import Unavailable
from slipstream.stores.edge_protocol import Reply, Request, pack, read_reply

log = logging.getLogger(__name__)

_REPLY_BUFFER_BYTES = 1 << 22


class EdgeClient:
    """Calls are answered in the order they were made. Belongs to the event loop that started it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None  # both are pipes
        assert process.stdout is not None
        self._process = process
        self._input = process.stdin
        self._output = process.stdout
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, *, niceness: int = 0) -> EdgeClient:
        """`niceness` keeps long work from taking the processor from those who wait."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "slipstream.stores.edge_host",
            str(niceness),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_REPLY_BUFFER_BYTES,
        )
        return cls(process)

    @property
    def alive(self) -> bool:
        return not self._reading.done()

    async def call(self, operation: str, *arguments: Any) -> Any:
        """Runs one of EdgeShard's methods in the other process.

        A caller who is cancelled stops waiting; the operation runs to its end.
        Raises Unavailable when that process is gone, and whatever error the operation was mapped to.
        """
        if not self.alive:
            raise self._gone()
        number = next(self._numbers)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            self._input.write(pack(Request(number, operation, arguments)))
            await self._input.drain()
            return await answer
        except (BrokenPipeError, ConnectionResetError):
            raise self._gone() from None
        finally:
            self._waiting.pop(number, None)

    async def kill(self) -> None:
        """Ends the process in the middle of whatever it does, for a shard that is thrown away."""
        if self._process.returncode is None:
            self._process.kill()
        self._input.close()
        await self._process.wait()
        await self._reading

    async def close(self) -> None:
        """Lets the shard flush and the process end; waits for both."""
        if self.alive:
            await self.call("close")
        self._input.close()
        await self._process.wait()
        await self._reading

    async def _read(self) -> None:
        try:
            while True:
                self._resolve(await read_reply(self._output))
        except (asyncio.IncompleteReadError, ConnectionResetError):
            pass
        finally:
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(self._gone())

    def _resolve(self, reply: Reply) -> None:
        answer = self._waiting.get(reply.number)
        if answer is None or answer.done():
            return
        if reply.error is not None:
            if reply.detail:
                log.warning("%s The store said: %s", reply.error, reply.detail)
            answer.set_exception(reply.error)
        else:
            answer.set_result(reply.value)

    def _gone(self) -> Unavailable:
        return Unavailable(
            "The process that holds the passages has ended. Check the free disk space and memory, then restart; "
            "nothing acknowledged is lost."
        )
