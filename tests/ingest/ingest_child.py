"""A process to be killed: ingests a folder into a durable store and says which documents are acknowledged."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from slipstream.ingest.ledger import Ledger
from slipstream.ingest.report import IngestEvent
from slipstream.ingest.run import Ingestor
from slipstream.models.fake_encoder import FakeEncoder
from slipstream.settings import IngestSettings
from slipstream.stores.qdrant_edge import QdrantEdgeStore


def say(event: IngestEvent) -> None:
    print(event.kind, event.name, flush=True)


async def main(data: Path, root: Path) -> None:
    encoder = FakeEncoder()
    store = QdrantEdgeStore(data / "passages", dimensions=encoder.dimensions, encoder=encoder.name)
    await store.open()
    ingestor = Ingestor(store, encoder, Ledger(data / "ledger.sqlite"), IngestSettings(passage_tokens=32))
    await ingestor.open()
    await ingestor.ingest_paths([root], tenant="t", collection="c", on_event=say)
    await ingestor.close()
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
