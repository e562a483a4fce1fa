"""A real Milvus server in a process of its own, for tests: started, killed, started again, always ended."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

_STARTED_S = 120
_PROGRAM = """
import socket, sys
from milvus import MilvusServer, MilvusServerConfig

class Config(MilvusServerConfig):
    def try_bind_port(self, port):  # theirs takes the port of a server just killed for one in use
        taken = socket.socket()
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", port))
            taken.listen()
            return taken
        except OSError:
            taken.close()

server = MilvusServer(Config())
server.set_base_dir(sys.argv[1])
if sys.argv[2] != "0":
    server.config.set("proxy_port", int(sys.argv[2]))
    server.config.configs["proxy_port"] = int(sys.argv[2])
server.start()
print(server.listen_port, server.server_proc.pid, flush=True)
sys.stdin.read()
server.stop()
"""
"""Ends its server when its standard input ends, which it does when the test's process dies."""


@dataclass
class MilvusServerProcess:
    """`milvus run standalone` from the wheel `milvus`, with everything it writes in one directory.

    One at a time: its etcd listens on a fixed port to its peers.
    """

    directory: Path
    port: int = 0
    pid: int = 0
    _keeper: subprocess.Popen[str] | None = field(default=None, repr=False)

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Blocks until it serves, some ten seconds. Started again, it takes the same port."""
        if importlib.util.find_spec("milvus") is None:
            raise RuntimeError("The real server is missing: pip install --no-deps milvus==2.3.5, or `make test-heavy`.")
        self.directory.mkdir(parents=True, exist_ok=True)
        self._keeper = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", _PROGRAM, str(self.directory), str(self.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._keeper.stdout is not None
        words = self._keeper.stdout.readline().split()
        if len(words) != 2:
            raise RuntimeError(f"The server did not start; see {self.directory / 'logs'}. Only one runs at a time.")
        self.port, self.pid = map(int, words)

    def kill(self) -> None:
        """kill -9 of the server."""
        os.kill(self.pid, signal.SIGKILL)
        self.stop()

    def stop(self) -> None:
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.communicate()
