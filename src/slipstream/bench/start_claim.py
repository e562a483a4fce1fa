"""X7: the second `slipstream demo` reaches its first token within seconds of the command."""

from __future__ import annotations

import asyncio
import sys
import time

from slipstream.bench.claims import Bar, Claim, Finding, Say, Side
from slipstream.errors import Unavailable
from slipstream.settings import Settings

REPEATS = 3
_FIRST_TOKEN = "»".encode()


async def measure(settings: Settings, say: Say) -> Finding:
    say("a first run, so that everything is in place")
    await _run()
    seconds = []
    for repeat in range(REPEATS):
        say(f"repeat {repeat + 1} of {REPEATS}")
        seconds.append(await _run())
    side = Side("command to first token", "s", tuple(seconds))
    return Finding((side,), (Bar("command to first token", side.median, "s", "<=", 15.0),))


async def _run() -> float:
    """Seconds from starting the command until the first answer's first text is on its standard output."""
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "slipstream.cli", "demo", "--users", "0", stdout=asyncio.subprocess.PIPE
    )
    try:
        if process.stdout is None:
            raise Unavailable("The demo gave no output.")
        seen = b""
        while _FIRST_TOKEN not in seen:
            piece = await process.stdout.read(4096)
            if not piece:
                raise Unavailable("The demo ended before its first token. Run `slipstream demo` to see why.")
            seen += piece
        return time.perf_counter() - began
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


CLAIM = Claim("X7", "The second demo reaches its first token within 15 s of the command.", measure, 2)
