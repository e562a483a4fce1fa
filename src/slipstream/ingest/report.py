"""What an ingestion did, file by file, and how it tells while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from slipstream.call import Clock
from slipstream.ingest.ledger import DocumentRecord

Outcome: TypeAlias = Literal["created", "replaced", "unchanged"]
EventKind: TypeAlias = Literal[
    "started", "created", "replaced", "unchanged", "removed", "failed", "skipped", "finished"
]


@dataclass(frozen=True, slots=True)
class Problem:
    """A file that was not indexed, or not wholly, and why."""

    name: str
    reason: str
    """A sentence that says what to do where something can be done."""
    code: str
    """Stable, as errors' codes are."""


@dataclass(frozen=True, slots=True)
class DocumentResult:
    """A document that is searchable and durable."""

    document: DocumentRecord
    outcome: Outcome
    warnings: tuple[str, ...] = ()
    """What was lost or guessed while reading it."""


@dataclass(frozen=True, slots=True)
class IngestEvent:
    """One step of a run, with the state after it."""

    kind: EventKind
    name: str = ""
    reason: str = ""
    files_done: int = 0
    files_total: int = 0
    bytes_done: int = 0
    bytes_total: int = 0
    passages: int = 0
    """Passages indexed so far."""
    elapsed_s: float = 0.0


OnEvent: TypeAlias = Callable[[IngestEvent], None]


@dataclass(frozen=True, slots=True)
class IngestReport:
    """Names are document ids, sorted; a skipped or failed file goes by its path."""

    added: tuple[str, ...]
    updated: tuple[str, ...]
    unchanged: tuple[str, ...]
    removed: tuple[str, ...]
    failed: tuple[Problem, ...]
    skipped: tuple[Problem, ...]
    """Left alone on purpose: hidden, too large, no regular file."""
    warnings: tuple[Problem, ...]
    """Indexed, but something was lost or guessed."""
    passages: int
    """Passages written in this run."""
    seconds: float

    @property
    def passages_per_second(self) -> float:
        return self.passages / self.seconds if self.seconds > 0 else 0.0


@dataclass(slots=True)
class Tally:
    """Counts a run as it goes, and tells whoever listens."""

    on_event: OnEvent | None = None
    clock: Clock = time.monotonic
    files_total: int = 0
    bytes_total: int = 0
    _files: int = 0
    _bytes: int = 0
    _passages: int = 0
    _names: dict[str, list[str]] = field(default_factory=dict)
    _failed: list[Problem] = field(default_factory=list)
    _skipped: list[Problem] = field(default_factory=list)
    _warnings: list[Problem] = field(default_factory=list)
    _began_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._began_s = self.clock()

    def tell(self, kind: EventKind, name: str = "", reason: str = "") -> None:
        if self.on_event is not None:
            elapsed_s = self.clock() - self._began_s
            self.on_event(
                IngestEvent(
                    kind,
                    name,
                    reason,
                    self._files,
                    self.files_total,
                    self._bytes,
                    self.bytes_total,
                    self._passages,
                    elapsed_s,
                )
            )

    def done(self, result: DocumentResult, size: int) -> None:
        name = result.document.id
        self._count(size)
        if result.outcome != "unchanged":
            self._passages += result.document.passages
        self._names.setdefault(result.outcome, []).append(name)
        self._warnings += [Problem(name, warning, "warning") for warning in result.warnings]
        self.tell(result.outcome, name)

    def failed(self, name: str, reason: str, code: str, size: int = 0) -> None:
        self._count(size)
        self._failed.append(Problem(name, reason, code))
        self.tell("failed", name, reason)

    def skipped(self, problem: Problem) -> None:
        self._skipped.append(problem)
        self.tell("skipped", problem.name, problem.reason)

    def removed(self, name: str) -> None:
        self._names.setdefault("removed", []).append(name)
        self.tell("removed", name)

    def report(self) -> IngestReport:
        self.tell("finished")
        return IngestReport(
            added=self._sorted("created"),
            updated=self._sorted("replaced"),
            unchanged=self._sorted("unchanged"),
            removed=self._sorted("removed"),
            failed=tuple(sorted(self._failed, key=lambda problem: problem.name)),
            skipped=tuple(sorted(self._skipped, key=lambda problem: problem.name)),
            warnings=tuple(sorted(self._warnings, key=lambda problem: problem.name)),
            passages=self._passages,
            seconds=self.clock() - self._began_s,
        )

    def _count(self, size: int) -> None:
        self._files += 1
        self._bytes += size

    def _sorted(self, outcome: str) -> tuple[str, ...]:
        return tuple(sorted(self._names.get(outcome, ())))
