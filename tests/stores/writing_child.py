"""Run as a process that a test kills: writes passages until it dies, naming each write once it is acknowledged."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from contracts.store_contract import DIMENSIONS, indexed

from slipstream.stores.qdrant_edge import QdrantEdgeStore

PER_DOCUMENT = 3


async def write(directory: Path, first: int) -> None:
    store = QdrantEdgeStore(directory, dimensions=DIMENSIONS, rebuild_after=40)
    await store.open()
    print("open", flush=True)
    optimizing = asyncio.create_task(store.optimize())
    for n in range(first, first + 10_000):
        document = f"d{n}"
        await store.upsert(
            [indexed(f"words of {document}", document=document, position=p, seed=n) for p in range(PER_DOCUMENT)]
        )
        print(f"wrote {n}", flush=True)
        if n % 5 == 4:
            await store.delete_document("a", "main", f"d{n - 2}")
            print(f"deleted {n - 2}", flush=True)
        if store.needs_optimize() and optimizing.done():
            await optimizing
            optimizing = asyncio.create_task(store.optimize())


if __name__ == "__main__":
    asyncio.run(write(Path(sys.argv[1]), int(sys.argv[2])))
