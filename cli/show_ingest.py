"""What a person sees of files that were read into the ledger: sums that add up, and the first rejects."""

from collections.abc import Sequence

import typer

from metering.ingest import Ingested, Rows


def print_ingested(done: Sequence[Ingested]) -> None:
    """One line of sums for each file, one for all of several, and the first rejects of each."""
    for each in done:
        typer.echo(f"{each.name}: {_sums(each.received, each.accepted, each.duplicate, each.rejected)}")
        for told in each.told:
            named = f" ({told.id})" if told.id else ""
            typer.echo(f"  line {told.line}{named}: {told.reason}: {told.detail}")
        _print_rest(each.rejected - len(each.told))
    if len(done) > 1:
        sums = [sum(getattr(e, part) for e in done) for part in ("received", "accepted", "duplicate", "rejected")]
        typer.echo(f"in all: {_sums(*sums)}")


def print_imported(rows: Rows, done: Ingested) -> None:
    """The rows of a job table and the events that they made, each a sum, and the first rejects of both."""
    tally = rows.tally
    skipped = "".join(f" + {count:,} {why.replace('_', ' ')}" for why, count in sorted(tally.skipped.items()))
    typer.echo(
        f"{done.name}: {tally.rows:,} rows = {tally.finished:,} finished + {tally.running:,} running{skipped}"
        f" + {tally.rejected:,} rejected"
    )
    for reject in rows.rejects:
        typer.echo(f"  {reject}")
    _print_rest(tally.rejected - len(rows.rejects), kept=False)
    done.name = "events"
    print_ingested([done])


def _sums(received: int, accepted: int, duplicate: int, rejected: int) -> str:
    return f"{received:,} received = {accepted:,} accepted + {duplicate:,} duplicate + {rejected:,} rejected"


def _print_rest(count: int, *, kept: bool = True) -> None:
    if count > 0:
        typer.echo(f"  and {count:,} more" + (", all in the table of rejects" if kept else ""))
