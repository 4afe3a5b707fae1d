"""`gpu-billing import`: back-fill usage from the job table of a scheduler."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import BillingError

if TYPE_CHECKING:
    from metering.mappings import TableMapping


class NoMapping(BillingError):
    """Nothing says what the columns of a job table mean."""

    def __init__(self) -> None:
        super().__init__("say what the columns mean: --mapping FILE, or --preset slurm or openb")


Text = Annotated[str | None, typer.Option(help="For the rows that name none.")]


def import_table(
    file: Annotated[Path, typer.Argument(help="The table with its header, as CSV; - is standard input.")],
    mapping: Annotated[Path | None, typer.Option(help="What the columns mean (YAML).")] = None,
    preset: Annotated[str | None, typer.Option(help="A kind of table that is known: slurm, openb.")] = None,
    source: Annotated[str | None, typer.Option(help="Where the table is from; part of each event's identity.")] = None,
    time_zone: Annotated[str | None, typer.Option(help="Of times without an offset, such as Asia/Shanghai.")] = None,
    origin: Annotated[str | None, typer.Option(help="The instant that relative seconds count from.")] = None,
    account: Text = None,
    sku: Text = None,
    plan: Text = None,
    project: Text = None,
    region: Text = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """Record the jobs of a table as usage; importing it again adds only what is new."""
    from cli.files import opened, progress, shown_name
    from cli.ledger import NEEDS_A_PERSON, recording
    from cli.show import print_json
    from cli.show_ingest import print_imported
    from metering.importers import events_from_table
    from metering.ingest import Ingested, Rows, ingest, lines_of

    options = {
        "source": source, "time_zone": time_zone, "origin": origin, "account": account, "sku": sku, "plan": plan,
        "project": project, "region": region,
    }  # fmt: skip
    meaning = _meaning(mapping, preset, {name: text for name, text in options.items() if text is not None})
    name = shown_name(file)
    rows, done = Rows(), Ingested(name)
    with opened(file) as stream, progress(stream, name) as moved, recording() as recorder:
        lines = lines_of(events_from_table(stream, meaning, name), rows)
        ingest(recorder, f"import:{Path(name).name}", lines, done, after_batch=moved)
    if json:
        print_json({"file": name, "rows": rows.to_json(), "events": done.to_json()})
    else:
        print_imported(rows, done)
    return NEEDS_A_PERSON if rows.tally.rejected or done.rejected else 0


def _meaning(mapping: Path | None, preset: str | None, options: dict[str, str]) -> "TableMapping":
    from cli.files import opened, shown_name
    from metering.mappings import MAPPING_BYTES_MAX, mapping_document, mapping_for

    if mapping is None:
        if preset is None:
            raise NoMapping
        return mapping_for(preset, None, options, f"preset {preset}")
    name = shown_name(mapping)
    with opened(mapping) as stream:
        document = mapping_document(stream.read(MAPPING_BYTES_MAX + 1), name)
    return mapping_for(preset, document, options, name)
