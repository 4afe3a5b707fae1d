"""`gpu-billing status`: doors, lag, the last batch of each, and what waits for someone."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from metering.status import Status


def status(json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Say how the service stands. The lag needs the broker; without an answer from it, it is left out."""
    from contextlib import closing

    from cli.books import books
    from cli.show import print_json
    from core.calendar import second_of
    from core.clock import now
    from core.config import load
    from core.database import connect
    from metering import offsets
    from metering.kafka_log import ends
    from metering.status import status as how_it_stands

    settings = load()
    with closing(connect(books(settings))) as db:
        known = [each.partition for each in offsets.recorded(db)]
        told = ends(settings.kafka, known) if settings.kafka and known else {}
        found = how_it_stands(db, second_of(now()), told)
    if json:
        print_json(found.to_json())
    else:
        _print(found)


def _print(found: "Status") -> None:
    from cli.show import print_table
    from core.calendar import instant_of

    doors = [
        (d.name, f"{d.batches:,}", f"{d.recorded_at:%Y-%m-%d %H:%M:%S}",
         *(f"{n:,}" for n in (d.received, d.accepted, d.duplicate, d.rejected)))
        for d in found.doors
    ]  # fmt: skip
    names = ("door", "batches", "last, UTC", "received", "accepted", "duplicate", "rejected")
    print_table("Doors", names, doors, figures_from=3)
    if found.partitions:
        rows = []
        for each in found.partitions:
            lag = found.lag(each)
            moved, behind = f"{instant_of(each.updated_at):%Y-%m-%d %H:%M:%S}", "unknown" if lag is None else f"{lag:,}"
            rows.append((str(each.partition), each.owner, moved, f"{each.next_offset:,}", behind))
        print_table("Partitions", ("partition", "consumer", "moved, UTC", "next offset", "lag"), rows, figures_from=3)
    typer.echo(f"{found.running:,} instances run, {found.unproven:,} of them not proven up to now")
    for kind, count in found.waiting.items():
        typer.echo(f"{count:,} {kind.replace('_', ' ')}")
    if not found.waiting:
        typer.echo("nothing waits for anyone")
