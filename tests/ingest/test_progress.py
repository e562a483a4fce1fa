from __future__ import annotations

import io

from rich.console import Console

from slipstream.ingest.progress import IngestProgress
from slipstream.ingest.report import IngestEvent

EVENTS = [
    IngestEvent("started", files_total=3, bytes_total=100),
    IngestEvent("created", "a [draft].md", "", 1, 3, 40, 100, 12, 2.0),
    IngestEvent("failed", "b[1].pdf", "The PDF is encrypted.", 2, 3, 60, 100, 12, 3.0),
    IngestEvent("finished", "", "", 3, 3, 100, 100, 12, 4.0),
]


def shown(*, terminal: bool) -> str:
    out = io.StringIO()
    with IngestProgress(Console(file=out, force_terminal=terminal, width=120)) as progress:
        for event in EVENTS:
            progress(event)
    return out.getvalue()


def test_a_terminal_sees_files_rate_and_failures() -> None:
    text = shown(terminal=True)
    assert "3/3 files" in text
    assert "passages/s" in text
    assert "b[1].pdf: The PDF is encrypted." in text


def test_elsewhere_only_failures_are_printed() -> None:
    assert shown(terminal=False).strip() == "failed  b[1].pdf: The PDF is encrypted."
