"""`gpu-billing close`, `invoices` and `verify`: issue a month, show what was issued, prove the books."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.ledger import NEEDS_A_PERSON

if TYPE_CHECKING:
    from pathlib import Path

    from core.config import Settings
    from metering.names import Names

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def reading(settings: "Settings") -> "AbstractContextManager[tuple[Any, Names]]":
    """A connection for snapshots of the books, and the names in them."""
    from cli.books import books

    return reading_at(books(settings))


@contextmanager
def reading_at(url: str) -> "Iterator[tuple[Any, Names]]":
    """The same for a database at an address."""
    from core.database import connect
    from metering.names import Names

    with connect(url) as db, connect(url) as aside:
        db.autocommit = aside.autocommit = True
        yield db, Names(aside)


def close(
    month: Annotated[str, typer.Argument(help="The month, such as 2026-03.")],
    as_of: Annotated[str | None, typer.Option(help="The instant of issue; default now.")] = None,
    accept_open: Annotated[bool, typer.Option("--accept-open", help="Issue accounts with open questions too.")] = False,
    json: Json = False,
) -> int:
    """Issue a month: one invoice for each account that has something to bill."""
    from cli.ledger import recording
    from cli.show import print_json
    from cli.show_invoices import print_close
    from cli.times import parse_instant, parse_month
    from core.calendar import second_of
    from core.clock import now
    from core.config import load
    from invoices.close import close_month
    from invoices.files import write_invoice

    number, until = parse_month(month), parse_instant(as_of) if as_of else second_of(now())
    settings = load()
    with recording() as recorder, reading(settings) as (db, names):
        closed = close_month(recorder, db, names, number, until, accept_open)
    files = [path for each in closed.issued for path in write_invoice(settings.data / "invoices", each)]
    if json:
        print_json({**closed.to_json(), "files": [str(path) for path in files]})
    else:
        print_close(closed.to_json(), _folder(files))
    return NEEDS_A_PERSON if closed.held else 0


def invoices(
    account: Annotated[str | None, typer.Option(help="Only this account.")] = None,
    month: Annotated[str | None, typer.Option(help="Only this month.")] = None,
    json: Json = False,
) -> None:
    """Show the invoices that were issued, in order of issue."""
    from cli.show import print_json
    from cli.show_invoices import print_invoices
    from cli.times import parse_month
    from core.config import load
    from invoices.store import documents

    number = parse_month(month) if month else None
    with reading(load()) as (db, _):
        found = documents(db, account, number)
    if json:
        print_json({"invoices": found})
    else:
        print_invoices(found)


def verify(json: Json = False) -> int:
    """Prove the books: chains, projections, timelines and invoices are made again and compared."""
    from cli.show import print_json
    from core.config import load
    from invoices.verify import differences

    with reading(load()) as (db, names):
        found = list(differences(db, names))
    if json:
        print_json({"differences": found})
    else:
        for line in found:
            typer.echo(line)
        typer.echo("the books agree" if not found else f"{len(found)} differences")
    return NEEDS_A_PERSON if found else 0


def _folder(files: "list[Path]") -> str:
    return str(files[0].parent) if files else ""
