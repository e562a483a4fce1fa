"""A progress bar for an ingestion: files, passages a second, time left, the file at hand."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from slipstream.ingest.report import IngestEvent

_NAME_COLUMNS = 40


class IngestProgress:
    """Call it with each event, inside its context. Draws a bar on a terminal; elsewhere it prints failures only."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),  # by bytes: files differ too much in size for a count to tell the time left
            TextColumn("{task.fields[files]} files · {task.fields[rate]} passages/s"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("Reading", total=None, files="0/?", rate="–")

    def __enter__(self) -> IngestProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def __call__(self, event: IngestEvent) -> None:
        if event.kind == "failed":
            self._console.print(Text.assemble(("failed  ", "bold red"), event.name, ": ", event.reason), soft_wrap=True)
        rate = event.passages / event.elapsed_s if event.elapsed_s > 0 else 0.0
        self._bar.update(
            self._task,
            description=_shortened(event.name) or "Reading",
            completed=event.bytes_done,
            total=max(1, event.bytes_total),
            files=f"{event.files_done:,}/{event.files_total:,}",
            rate=f"{rate:.0f}" if event.passages else "–",
        )


def _shortened(name: str) -> str:
    return name if len(name) <= _NAME_COLUMNS else "…" + name[-_NAME_COLUMNS:]
