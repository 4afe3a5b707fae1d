"""`gpu-billing demo`: a seeded month of a believable fleet, from events to invoices, in a data folder of its own."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from core.config import Settings
    from metering.recorder import Recorder

EXAMPLES = Path(__file__).parent.parent / "examples"
Say = Callable[[str], None]


def demo(
    month: Annotated[str, typer.Option(help="The month to bill.")] = "2026-03",
    seed: Annotated[int, typer.Option(help="Another seed is another fleet.")] = 1,
    instances: Annotated[int, typer.Option(min=1, max=5000, help="How many instances.")] = 320,
    kafka: Annotated[bool, typer.Option("--kafka", help="Through a Kafka of its own; needs Java and Maven.")] = False,
) -> None:
    """Generate a month of a fleet, stream it into a ledger, close the month, and show the invoices."""
    from rich.console import Console

    from cli.books import books
    from cli.times import parse_month
    from core.config import load

    number = parse_month(month)
    settings = load()
    own = settings.model_copy(update={"database_url": None, "data": settings.data / "demo"})
    console = Console(soft_wrap=True)
    console.print(f"Demo ledger: PostgreSQL in {own.data}", markup=False)
    url = books(own)
    events = _write_events(own.data / f"events-{month}-{seed}-{instances}.jsonl", month, seed, instances)
    _run(own, url, number, events, kafka, console.print)


def _run(settings: "Settings", url: str, month: int, events: Path, kafka: bool, say: Say) -> None:
    from cli.ledger import recording_at
    from cli.show_invoices import print_invoices

    with recording_at(url) as recorder:
        _apply_terms(recorder, say)
        counts = _through_kafka(settings, url, events, say) if kafka else _from_file(recorder, events)
        say(f"{sum(counts.values()):,} events from {events}: " + ", ".join(f"{n:,} {how}" for how, n in counts.items()))
        documents = _close(recorder, url, month, settings.data / "invoices", say)
    print_invoices(documents)
    folder = settings.data / "invoices"
    say(f"Events:   {events}")
    for each in sorted({document["month"] for document in documents}):
        say(f"Invoices: {folder / each} (JSON and CSV)")
    say(f"Look on:  GPU_BILLING_DATA={settings.data} .venv/bin/gpu-billing verify   (or bills, invoices, close)")


def _write_events(path: Path, month: str, seed: int, instances: int) -> Path:
    """The fleet's events as a file, as an agent would have left them."""
    from metering.fleet import fleet_events

    with path.open("wb") as out:
        for event in fleet_events(month, seed, instances):
            out.write(event + b"\n")
    return path


def _apply_terms(recorder: "Recorder", say: Say) -> None:
    from core.errors import InputUnusable
    from metering.terms_apply import apply_terms
    from pricing.load import read_terms

    files = [EXAMPLES / "price-book.yaml", *sorted((EXAMPLES / "contracts").glob("*.yaml"))]
    if not files[0].exists():
        raise InputUnusable(str(files[0]), "the demo needs the project's examples folder")
    applied = apply_terms(recorder, [each for file in files for each in read_terms(file)], correction=False)
    say(f"{len(applied)} price books and contracts from {EXAMPLES}")


def _from_file(recorder: "Recorder", events: Path) -> dict[str, int]:
    from metering.ingest import Ingested, ingest
    from metering.lines import read_lines

    done = Ingested(events.name)
    with events.open("rb") as stream:
        ingest(recorder, f"file:{events.name}", read_lines(stream, str(events)), done)
    return {"accepted": done.accepted, "duplicate": done.duplicate, "rejected": done.rejected}


def _through_kafka(settings: "Settings", url: str, events: Path, say: Say) -> dict[str, int]:
    from cli.demo_stream import stream

    say("Starting Kafka")
    counts, way = stream(settings, url, events)
    say(way)
    return counts


def _close(recorder: "Recorder", url: str, month: int, folder: Path, say: Say) -> list[dict[str, Any]]:
    """Close the month and the one before it, in which some of the fleet's rentals began."""
    from cli.close import reading_at
    from core.calendar import calendar, month_name
    from invoices.close import close_month
    from invoices.files import write_invoice
    from invoices.store import documents

    with reading_at(url) as (db, names):
        for each in (month - 1, month):
            as_of = calendar("Asia/Shanghai").month_start(each + 1)
            closed = close_month(recorder, db, names, each, as_of, accept_open=True)
            say(f"{month_name(each)} closed: {len(closed.issued)} invoices issued, {closed.known} were issued before")
            for account, asked in sorted(closed.accepted.items()):
                say(f"  {account}: {len(asked)} open questions accepted, e.g. {asked[0]['detail']}")
            for unproven in closed.unproven:
                say(f"  {unproven.instance} runs, but is proven only until {_shown(unproven.until)}")
        found = documents(db, None, None)
    for document in found:
        write_invoice(folder, document)
    return found


def _shown(second: int) -> str:
    from core.calendar import instant_of

    return instant_of(second).isoformat()
