"""The server's end of the engine process: starts it, routes its reports to streams, notices its death."""

from __future__ import annotations

import asyncio
import logging
import queue
import subprocess
import sys
import threading
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe

import numpy as np
from numpy.typing import NDArray

from slipstream.call import Call
from slipstream.errors import Bug, ConfigError, DataError, Overloaded, SlipstreamError, Unavailable
from slipstream.models.engine_wire import (
    Admitted,
    Cancel,
    Close,
    Failed,
    Open,
    Opened,
    OpenFailed,
    Order,
    Piece,
    Report,
    Step,
    Submit,
)
from slipstream.models.token_stream import TokenStream
from slipstream.types import Sampling, Token, Usage

_log = logging.getLogger(__name__)
_CLOSE_TIMEOUT_S = 30.0


@dataclass(slots=True, eq=False)
class Generation:
    """One request: what the engine process is asked, and where its tokens go."""

    ids: NDArray[np.int64]
    sampling: Sampling
    stream: TokenStream
    loop: asyncio.AbstractEventLoop
    call: Call
    id: int = 0
    cached_tokens: int = 0
    submitted_s: float = 0.0
    admitted_s: float | None = None
    first_token_s: float | None = None
    """Times since the call began."""


class EngineClient:
    """Thread-safe. Two threads: one writes orders, so that a full pipe stops no event loop; one reads reports."""

    def __init__(self, name: str, order: Open) -> None:
        """Starts the process and waits until the model is loaded; run it on a worker.

        Raises DataError when the model cannot be used, ConfigError when the KV budget is too small for it,
        Unavailable when the process dies while loading.
        """
        self._connection, self._process = _start()
        self._orders: queue.SimpleQueue[Order | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._generations: dict[int, Generation] = {}
        self._next_id = 0
        self._down: SlipstreamError | None = None
        self._running = 0
        self.steps = 0
        """Steps the engine has taken."""
        self.kv_used_fraction = 0.0
        """Blocks held by unfinished requests, as of the last step."""
        self.opened = self._open(order)
        self._writer = threading.Thread(target=self._write, name=f"slipstream-engine-{name}-orders", daemon=True)
        self._reader = threading.Thread(target=self._read, name=f"slipstream-engine-{name}", daemon=True)
        self._writer.start()
        self._reader.start()

    @property
    def process_id(self) -> int:
        return self._process.pid

    def submit(self, generation: Generation) -> None:
        """Raises Unavailable when the engine is down."""
        with self._lock:
            if self._down is not None:
                raise Unavailable("The language model engine is down. Try again after the server has restarted.")
            self._next_id += 1
            generation.id = self._next_id
            generation.submitted_s = generation.call.elapsed_s()
            self._generations[generation.id] = generation
        self._orders.put(Submit(generation.id, generation.ids, generation.sampling, generation.call.tenant))

    def cancel(self, generation: Generation) -> None:
        """Frees what the generation holds within a step; does nothing when it has finished."""
        with self._lock:
            unfinished = self._generations.pop(generation.id, None)
        if unfinished is not None:
            self._orders.put(Cancel(generation.id))

    def counts(self) -> tuple[int, int]:
        """(running, waiting) requests, as of the last report."""
        return self._running, max(0, len(self._generations) - self._running)

    def alive(self) -> bool:
        return self._down is None

    def close(self) -> None:
        """Ends every generation with Unavailable, drains the engine and joins it. Blocks."""
        self._fail_all(Unavailable("The server is shutting down. Try again in a moment."))
        self._orders.put(Close())
        self._orders.put(None)
        try:
            self._process.wait(_CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            _log.warning("the engine process did not end; killing it")
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._writer.join()
        self._connection.close()

    def _open(self, order: Open) -> Opened:
        try:
            self._connection.send(order)
            report: Report = self._connection.recv()
        except (EOFError, OSError) as error:
            code = self._process.wait()
            raise Unavailable(f"The engine process ended while it loaded the model (exit code {code}).") from error
        if isinstance(report, OpenFailed):
            self._process.wait()
            raise (ConfigError if report.kind == "settings" else DataError)(report.message)
        assert isinstance(report, Opened)
        return report

    def _write(self) -> None:
        while (order := self._orders.get()) is not None:
            try:
                self._connection.send(order)
            except OSError:
                return  # the reader reports the death

    def _read(self) -> None:
        try:
            while True:
                report = self._connection.recv()
                assert isinstance(report, Step)
                self._route(report)
        except (EOFError, OSError):
            if self._down is None:
                code = self._process.wait()
                _log.error("the engine process died", extra={"exit_code": code})
                self._fail_all(Bug(f"The language model engine died (exit code {code}). The server needs a restart."))
                self._orders.put(None)

    def _route(self, report: Step) -> None:
        """One wake-up per event loop and step, however many requests got a token."""
        self.steps = report.number
        self._running, self.kv_used_fraction = report.running, report.kv_used_fraction
        outbox: dict[asyncio.AbstractEventLoop, list[tuple[TokenStream, Token | SlipstreamError]]] = {}
        for item in report.items:
            generation = self._generations.get(item.id)
            if generation is None:
                continue
            if (delivery := self._receive(generation, item)) is not None:
                outbox.setdefault(generation.loop, []).append((generation.stream, delivery))
        for loop, deliveries in outbox.items():
            self._post(loop, deliveries)

    def _receive(self, generation: Generation, item: Admitted | Piece | Failed) -> Token | SlipstreamError | None:
        if isinstance(item, Admitted):
            generation.admitted_s = generation.call.elapsed_s()
            generation.cached_tokens = item.cached_tokens
            return None
        if isinstance(item, Failed):
            self._generations.pop(generation.id, None)
            if item.memory:
                return Overloaded("The language model ran out of memory for this request. Try again later.")
            return Bug(f"The language model engine refused the request: {item.message}")
        if generation.first_token_s is None:
            generation.first_token_s = generation.call.elapsed_s()
        usage = None
        if item.finish_reason is not None:
            self._generations.pop(generation.id, None)
            usage = Usage(len(generation.ids), item.completion_tokens, generation.cached_tokens)
        return Token(item.text, item.count, item.finish_reason, usage)

    def _post(
        self, loop: asyncio.AbstractEventLoop, deliveries: list[tuple[TokenStream, Token | SlipstreamError]]
    ) -> None:
        try:
            loop.call_soon_threadsafe(_deliver, deliveries)
        except RuntimeError:  # the loop is closed, and its readers with it
            for generation in [g for g in tuple(self._generations.values()) if g.loop is loop]:
                self.cancel(generation)

    def _fail_all(self, error: SlipstreamError) -> None:
        with self._lock:
            self._down = error
            everyone = tuple(self._generations.values())
            self._generations.clear()
        self._running, self.kv_used_fraction = 0, 0.0
        for generation in everyone:
            self._post(generation.loop, [(generation.stream, error)])


def _deliver(deliveries: list[tuple[TokenStream, Token | SlipstreamError]]) -> None:
    for stream, item in deliveries:
        stream.feed(item)


def _start() -> tuple[Connection, subprocess.Popen[bytes]]:
    ours, theirs = Pipe()
    with theirs:
        command = [sys.executable, "-m", "slipstream.models.engine_process", str(theirs.fileno())]
        process = subprocess.Popen(command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL)  # noqa: S603
    return ours, process
