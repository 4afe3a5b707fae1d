"""`gpu-billing rate`: price a file of events without a database."""

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print the whole object instead of a table.")]
AsOf = Annotated[str | None, typer.Option(help="An instant such as 2026-04-01T00:00:00+08:00.")]


def rate(
    price_book: Annotated[Path, typer.Option(help="The price book (YAML).")],
    events: Annotated[Path, typer.Option(help="Usage events, one JSON object a line.")],
    contract: Annotated[Path | None, typer.Option(help="The account's contract (YAML).")] = None,
    as_of: AsOf = None,
    json: Json = False,
) -> None:
    """Price a file of events, without a database."""
    from cli.files import opened, shown_name
    from cli.show import print_bills, print_json
    from cli.times import parse_instant
    from metering.door import accept
    from metering.lines import read_lines
    from metering.rate import rate as rate_events
    from pricing.dry_run import read_dry_run_terms

    until = parse_instant(as_of) if as_of else None
    terms = read_dry_run_terms(price_book, contract)
    with opened(events) as stream:
        accepted = accept(read_lines(stream, shown_name(events)))
    rated = rate_events(accepted, terms, until)
    if json:
        print_json(rated.to_json())
    else:
        print_bills(rated.to_json())
