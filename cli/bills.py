"""`gpu-billing bills`: what every account owes as of an instant, from the ledger."""

from typing import Annotated

import typer


def bills(
    account: Annotated[str | None, typer.Option(help="Only this account.")] = None,
    month: Annotated[str | None, typer.Option(help="Only this month, such as 2026-03.")] = None,
    as_of: Annotated[str | None, typer.Option(help="An instant; default now. Later events are not known.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the whole object instead of a table.")] = False,
) -> None:
    """Show the bills of all accounts, from the ledger."""
    from cli.ledger import recording
    from cli.show import print_bills, print_json
    from cli.times import parse_instant, parse_month
    from core.calendar import second_of
    from core.clock import now
    from invoices.draft import bills_json

    until = parse_instant(as_of) if as_of else second_of(now())
    number = parse_month(month) if month else None
    with recording() as recorder:
        answer = bills_json(recorder.connection, recorder.names, until, account, number)
    if json:
        print_json(answer)
    else:
        print_bills(answer)
