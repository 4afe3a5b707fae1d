"""A file of events, or a job table, into the ledger: batches in order, memory bounded whatever the file holds (R26).

A batch is recorded whole or not at all, so whoever is interrupted between two of them runs the file again: what is
known already is a duplicate and changes nothing (R25).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from metering.import_outcomes import ImportedEvent, ImportOutcome, ImportReject, ImportTally
from metering.lines import Line
from metering.recorder import Recorder

BATCH_LINES = 5_000
BATCH_BYTES = 32 << 20
"""A batch of long lines ends early, so that none of them costs memory that a machine may not have."""

TOLD = 20
"""So many rejects are told one by one; the table of rejects has them all."""


@dataclass(frozen=True, slots=True)
class Told:
    """A reject as a person reads it: where it stands, its id where one could be read, why, and which field."""

    line: int
    id: str | None
    reason: str
    detail: str


@dataclass(slots=True)
class Ingested:
    """What became of the events of one file so far: received = accepted + duplicate + rejected."""

    name: str
    received: int = 0
    accepted: int = 0
    duplicate: int = 0
    rejected: int = 0
    told: list[Told] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The object of ``gpu-billing ingest --json`` for one file."""
        rejects = [{"line": t.line, "id": t.id, "reason": t.reason, "detail": t.detail} for t in self.told]
        return {
            "file": self.name, "received": self.received, "accepted": self.accepted, "duplicate": self.duplicate,
            "rejected": self.rejected, "rejects": rejects, "more_rejects": self.rejected - len(rejects),
        }  # fmt: skip


def ingest(
    recorder: Recorder, door: str, lines: Iterable[Line], into: Ingested, batch_lines: int = BATCH_LINES,
    after_batch: Callable[[], None] = lambda: None,
) -> None:  # fmt: skip
    """Record lines as the batches of a door; ``into`` counts every batch as soon as it is recorded."""
    for batch in batches(lines, batch_lines):
        outcome = recorder.record(door, batch)
        into.received += outcome.received
        into.accepted += outcome.accepted
        into.duplicate += outcome.duplicate
        into.rejected += outcome.rejected
        assert into.received == into.accepted + into.duplicate + into.rejected
        refused = (each for each in outcome.refusals if each.verdict == "rejected")
        for each in sorted(refused, key=lambda refusal: refusal.index):
            if len(into.told) < TOLD:
                into.told.append(Told(batch[each.index].number, each.id, each.reason, each.detail))
        after_batch()


def batches(lines: Iterable[Line], most_lines: int, most_bytes: int = BATCH_BYTES) -> Iterator[list[Line]]:
    """Lines in lists of at most so many, ended early by a line that takes them to so many bytes."""
    batch: list[Line] = []
    held = 0
    for line in lines:
        batch.append(line)
        held += len(line.raw)
        if len(batch) >= most_lines or held >= most_bytes:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


@dataclass(slots=True)
class Rows:
    """The rows of a job table so far: rows = finished + running + skipped + rejected."""

    tally: ImportTally = field(default_factory=ImportTally)
    rejects: list[ImportReject] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The rows' part of ``gpu-billing import --json``."""
        tally = self.tally
        rejects = [
            {"line": r.line, "column": r.column, "column_name": r.column_name, "value": r.value, "reason": r.reason}
            for r in self.rejects
        ]
        return {
            "received": tally.rows, "finished": tally.finished, "running": tally.running,
            "skipped": dict(sorted(tally.skipped.items())), "rejected": tally.rejected,
            "rejects": rejects, "more_rejects": tally.rejected - len(rejects),
        }  # fmt: skip


def lines_of(outcomes: Iterable[ImportOutcome], into: Rows, most_rejects: int = TOLD) -> Iterator[Line]:
    """The events among the outcomes of a job table, each at the line of its row; every outcome is counted."""
    for outcome in outcomes:
        into.tally.count(outcome)
        if isinstance(outcome, ImportedEvent):
            yield Line(outcome.line, outcome.body, len(outcome.body))
        elif isinstance(outcome, ImportReject) and len(into.rejects) < most_rejects:
            into.rejects.append(outcome)
