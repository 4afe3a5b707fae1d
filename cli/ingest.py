"""`gpu-billing ingest`: stream files of events into the ledger."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from core.errors import InputUnusable
    from metering.ingest import Ingested
    from metering.recorder import Recorder


def ingest(
    files: Annotated[list[Path], typer.Argument(help="Usage events, one JSON object a line; - is standard input.")],
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 when an event was rejected.")] = False,
    batch: Annotated[int, typer.Option(min=1, max=100_000, help="Events in one transaction.")] = 5_000,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """Record files of events; what is known already changes nothing."""
    from cli.files import shown_name
    from cli.ledger import FAILED, NEEDS_A_PERSON, recording
    from core.errors import InputUnusable
    from metering.ingest import Ingested

    done: list[Ingested] = []
    unusable: list[InputUnusable] = []
    try:
        with recording() as recorder:
            for path in files:
                done.append(Ingested(shown_name(path)))
                try:
                    _ingest_file(recorder, path, done[-1], batch)
                except InputUnusable as error:
                    unusable.append(error)
    finally:
        _tell(done, unusable, json)  # also when interrupted: whole batches are recorded, and stay
    if unusable:
        return FAILED
    return NEEDS_A_PERSON if strict and any(each.rejected for each in done) else 0


def _ingest_file(recorder: "Recorder", path: Path, into: "Ingested", batch: int) -> None:
    from cli.files import opened, progress
    from core.errors import InputUnusable
    from metering.ingest import ingest
    from metering.lines import read_lines

    with opened(path) as stream, progress(stream, into.name) as moved:
        try:
            ingest(recorder, f"file:{Path(into.name).name}", read_lines(stream, into.name), into, batch, moved)
        except OSError as error:
            raise InputUnusable(into.name, error.strerror or str(error)) from error


def _tell(done: "list[Ingested]", unusable: "list[InputUnusable]", json: bool) -> None:
    from cli.show import print_json
    from cli.show_ingest import print_ingested

    wrong = {error.name: error.reason for error in unusable}
    if json:
        parts = ("received", "accepted", "duplicate", "rejected")
        totals = {part: sum(getattr(each, part) for each in done) for part in parts}
        print_json({
            "files": [each.to_json() for each in done], **totals,
            "unusable": [{"file": name, "reason": reason} for name, reason in wrong.items()],
        })  # fmt: skip
    else:
        print_ingested([each for each in done if each.received or each.name not in wrong])
    for error in unusable:
        typer.echo(f"gpu-billing: {error}", err=True)
