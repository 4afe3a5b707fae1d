"""What a row of a job table can come to, and the count of it: every row has exactly one outcome (R26)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

Skipped = Literal["never_ran", "no_card", "zero_length", "job_step"]
EventType = Literal["instance.started", "instance.stopped"]


@dataclass(frozen=True, slots=True)
class ImportedEvent:
    """One CloudEvent as JSON bytes, and the line of the row it follows from."""

    line: int
    type: EventType
    body: bytes


@dataclass(frozen=True, slots=True)
class ImportReject:
    """A row that cannot be used. `line` and `column` count from 1; `column` is None where none can be named."""

    line: int
    column: int | None
    column_name: str
    value: str
    reason: str

    def __str__(self) -> str:
        place = f"line {self.line}"
        if self.column is not None:
            place += f", column {self.column}" + (f" ({self.column_name})" if self.column_name else "")
        return f"{place}: {self.reason}: '{self.value}'"


@dataclass(frozen=True, slots=True)
class RowSkipped:
    """A row that is no usage: it never ran, holds no card, lasted less than a second, or repeats its own job's row."""

    line: int
    why: Skipped


ImportOutcome = ImportedEvent | ImportReject | RowSkipped


@dataclass
class ImportTally:
    """Counts rows; rows = finished + running + skipped + rejected."""

    started: int = 0
    finished: int = 0
    rejected: int = 0
    skipped: Counter[Skipped] = field(default_factory=Counter)

    def count(self, outcome: ImportOutcome) -> None:
        """Adds one outcome."""
        match outcome:
            case ImportReject():
                self.rejected += 1
            case RowSkipped(why=why):
                self.skipped[why] += 1
            case ImportedEvent(type="instance.started"):
                self.started += 1
            case ImportedEvent():
                self.finished += 1

    @property
    def rows(self) -> int:
        """All rows below the header, blank lines aside."""
        return self.started + self.rejected + self.skipped.total()

    @property
    def running(self) -> int:
        """Rows that started and have no end yet."""
        return self.started - self.finished
