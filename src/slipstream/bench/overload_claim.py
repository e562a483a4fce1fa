"""X3: overload is answered at once: the excess is refused, the admitted are served, memory stays flat."""

from __future__ import annotations

import psutil

from slipstream.bench.claims import Bar, Claim, Finding, Say, Side, percentile
from slipstream.bench.demo_server import OPTIONS, demo_server
from slipstream.bench.load_client import drive
from slipstream.settings import Settings

AT_ONCE, TOKENS, REPEATS = 200, 32, 3
_SMALL_CAPACITY = {"SLIPSTREAM_ADMISSION__MAX_TOKENS": "4000", "SLIPSTREAM_ADMISSION__MAX_QUEUED_TOKENS": "4000"}
BODY = {
    "model": "slipstream",
    "messages": [{"role": "user", "content": "How do I declare a request body?"}],
    "stream": True,
    "max_tokens": TOKENS,
    "slipstream": {**OPTIONS, "route": "small"},
}


async def measure(settings: Settings, say: Say) -> Finding:
    refused_ms: list[float] = []
    worst, answered, other, growth = [], [], 0, []
    async with demo_server(settings, _SMALL_CAPACITY) as demo:
        host, port = demo.running.host, demo.running.port
        server = psutil.Process(demo.running.pid)
        await drive(host, port, "/v1/chat/completions", BODY, requests=2, connections=1)
        for repeat in range(REPEATS):
            say(f"{AT_ONCE} at once, repeat {repeat + 1} of {REPEATS}")
            before = server.memory_info().rss
            load = await drive(host, port, "/v1/chat/completions", BODY, requests=AT_ONCE, connections=AT_ONCE)
            growth.append((server.memory_info().rss - before) / 2**20)
            refusals = [1e3 * t.total_s for t in load.timings if t.status == 429]
            refused_ms.extend(refusals)
            worst.append(max(refusals, default=0.0))
            answered.append(float(sum(t.status == 200 for t in load.timings)))
            other += sum(t.status not in (200, 429) for t in load.timings)
    return Finding(
        (
            Side("refused, per request", "ms", tuple(refused_ms)),
            Side("answered of 200", "requests", tuple(answered)),
            Side("memory growth per burst", "MiB", tuple(growth)),
        ),
        (
            Bar("slowest refusal", percentile(worst, 50), "ms", "<=", 100.0),
            Bar("neither answered nor refused", float(other), "requests", "<=", 0.0),
            Bar("memory growth of the last burst", growth[-1], "MiB", "<=", 16.0),
        ),
    )


CLAIM = Claim("X3", "Two hundred requests at a capacity of a few: the rest is refused at once.", measure, 2)
