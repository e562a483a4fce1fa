"""Empties a tenant and dies like a killed process right after the step named."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from slipstream.ingest.ledger import Ledger
from slipstream.ingest.run import Ingestor
from slipstream.models.fake_encoder import FakeEncoder
from slipstream.settings import IngestSettings
from slipstream.stores.qdrant_edge import QdrantEdgeStore

TEXT = "\n\n".join(f"Paragraph {n} says that value {n} is the right one for case {n}. " * 5 for n in range(8))


async def main(data: Path, after: str) -> None:
    encoder = FakeEncoder()
    store = QdrantEdgeStore(data / "passages", dimensions=encoder.dimensions, encoder=encoder.name)
    await store.open()
    ledger = Ledger(data / "ledger.sqlite")
    ingestor = Ingestor(store, encoder, ledger, IngestSettings(passage_tokens=32))
    await ingestor.open()
    for tenant in ("t", "other"):
        for name in ("a.md", "b.md"):
            await ingestor.ingest_bytes(name, TEXT.encode(), tenant=tenant, collection="c")
    part: Any = ledger if hasattr(ledger, after) else store
    step = getattr(part, after)

    async def and_die(*arguments: object) -> None:
        await step(*arguments)
        os._exit(9)

    setattr(part, after, and_die)
    await ingestor.delete_tenant("t")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
