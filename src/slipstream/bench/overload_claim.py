"""X3: overload is answered at once: the excess is refused, the admitted are served, memory stays flat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import psutil

from slipstream.bench.claims import Bar, Claim, Finding, Say, Side
from slipstream.bench.demo_server import OPTIONS, demo_server
from slipstream.bench.load_client import Timing, drive
from slipstream.settings import Settings

PATH = "/v1/chat/completions"
AT_ONCE, TOKENS, REPEATS = 200, 32, 3
OK, REFUSED = 200, 429
_SMALL_CAPACITY = {"SLIPSTREAM_ADMISSION__MAX_TOKENS": "4000", "SLIPSTREAM_ADMISSION__MAX_QUEUED_TOKENS": "4000"}
BODY = {
    "model": "slipstream",
    "messages": [{"role": "user", "content": "How do I declare a request body?"}],
    "stream": True,
    "max_tokens": TOKENS,
    "slipstream": {**OPTIONS, "route": "small"},
}


async def measure(settings: Settings, say: Say) -> Finding:
    bursts = []
    async with demo_server(settings, _SMALL_CAPACITY) as demo:
        host, port, pid = demo.running.host, demo.running.port, demo.running.pid
        await drive(host, port, PATH, BODY, requests=AT_ONCE, connections=AT_ONCE)  # warms both sides up
        for repeat in range(REPEATS):
            say(f"{AT_ONCE} at once, repeat {repeat + 1} of {REPEATS}")
            before = _memory_mib(pid)
            load = await drive(host, port, PATH, BODY, requests=AT_ONCE, connections=AT_ONCE)
            bursts.append(_Burst(load.timings, _memory_mib(pid) - before))
    refused_ms = [1e3 * t.total_s for burst in bursts for t in burst.timings if t.status == REFUSED]
    answered = [float(sum(t.status == OK and t.whole for t in burst.timings)) for burst in bursts]
    other = sum(not (t.status == REFUSED or (t.status == OK and t.whole)) for burst in bursts for t in burst.timings)
    return Finding(
        (
            Side("refused, per request", "ms", tuple(refused_ms)),
            Side(f"answered of {AT_ONCE}", "requests", tuple(answered)),
            Side("memory growth per burst, all processes", "MiB", tuple(burst.growth_mib for burst in bursts)),
        ),
        (
            Bar("slowest refusal of all bursts", max(refused_ms, default=float("inf")), "ms", "<=", 100.0),
            Bar("refused requests", float(len(refused_ms)), "requests", ">=", 1.0),
            Bar("fewest answered in a burst", min(answered), "requests", ">=", 1.0),
            Bar("neither wholly answered nor refused", float(other), "requests", "<=", 0.0),
            Bar("memory growth of the last burst", bursts[-1].growth_mib, "MiB", "<=", 16.0),
        ),
        "a refusal's time runs from sending on an open connection to its last byte, among all the others",
    )


@dataclass(frozen=True, slots=True)
class _Burst:
    timings: Sequence[Timing]
    growth_mib: float


def _memory_mib(pid: int) -> float:
    """Resident memory of the server and of the engines it runs."""
    server = psutil.Process(pid)
    return float(sum(process.memory_info().rss for process in (server, *server.children(recursive=True)))) / 2**20


CLAIM = Claim("X3", "Two hundred requests at a capacity of a few: the rest is refused at once.", measure, 2)
