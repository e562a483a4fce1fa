"""`python -m slipstream.bench.serve_bare CHUNKS PORT`: the bare endpoint as a process."""

from __future__ import annotations

import sys
from pathlib import Path

import uvicorn

from slipstream.bench.bare_app import bare_app

_EVENT = b"\n\n"


def main() -> None:
    events = [event + _EVENT for event in Path(sys.argv[1]).read_bytes().split(_EVENT) if event]
    uvicorn.run(
        bare_app(events),
        host="127.0.0.1",
        port=int(sys.argv[2]),
        loop="uvloop",
        http="httptools",
        log_level="warning",
        access_log=False,
    )


if __name__ == "__main__":
    main()
