"""Ingests a folder into a store that keeps nothing, and prints the peak memory of the process and of its children."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from collections.abc import Sequence
from pathlib import Path

from slipstream.ingest.ledger import Ledger
from slipstream.ingest.run import Ingestor
from slipstream.models.fake_encoder import FakeEncoder
from slipstream.settings import IngestSettings
from slipstream.stores.memory import MemoryStore
from slipstream.types import IndexedPassage


class ForgetfulStore(MemoryStore):
    async def upsert(self, passages: Sequence[IndexedPassage]) -> None:
        """So that what grows is the ingestion's own."""


def own_peak_mib() -> int:
    """Not ru_maxrss: that survives exec, so it may be the peak of the test run that started this process."""
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) >> 10


async def main(data: Path, root: Path) -> None:
    encoder = FakeEncoder()
    ingestor = Ingestor(
        ForgetfulStore(dimensions=encoder.dimensions), encoder, Ledger(data / "ledger.sqlite"), IngestSettings()
    )
    await ingestor.open()
    report = await ingestor.ingest_paths([root], tenant="t", collection="c")
    await ingestor.close()
    children_mib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    figures = {"documents": len(report.added), "passages": report.passages, "seconds": report.seconds}
    print(json.dumps({**figures, "own_mib": own_peak_mib(), "children_mib": children_mib}))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
