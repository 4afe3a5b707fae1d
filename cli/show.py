"""What a person sees: tables of bills, and the JSON objects that programs read."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

WIDTH_OF_FILES = 160
"""Columns of a table that goes to a file or a pipe, where nobody says how wide it may be."""

TOLD = 20


def print_json(value: Mapping[str, Any]) -> None:
    """One JSON object on standard output."""
    json.dump(value, sys.stdout, ensure_ascii=False, indent=1)
    sys.stdout.write("\n")


def hours(card_seconds: int) -> str:
    """Card-seconds as card-hours with two digits, for the eye only."""
    hundredths = (card_seconds + 18) // 36
    return f"{hundredths // 100:,}.{hundredths % 100:02d}"


def print_table(
    title: str, names: Sequence[str], rows: Iterable[Sequence[str]], figures_from: int | None = None
) -> None:  # fmt: skip
    """A table of texts; columns from ``figures_from`` on are figures and stand to the right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title)
    for place, name in enumerate(names):
        is_figure = figures_from is not None and place >= figures_from
        table.add_column(name, justify="right" if is_figure else "left", no_wrap=is_figure)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))  # a name is no markup, whatever it holds
    Console(width=None if sys.stdout.isatty() else WIDTH_OF_FILES).print(table)


def print_bills(answer: Mapping[str, Any]) -> None:
    """The bills of ``rate`` and ``bills`` as a table, then what a person should see of the events behind them."""
    names = (
        "account", "month", "card-hours", "billed", "excluded", "list", "discounts", "credits", "due", ""
    )  # fmt: skip
    print_table("Bills", names, [_row(bill) for bill in answer["bills"]], figures_from=2)
    rejects, anomalies = answer["rejects"], answer["anomalies"]
    print(f"{len(rejects)} rejects, {answer['duplicates']} duplicates, {len(anomalies)} anomalies")
    for reject in rejects[:TOLD]:
        place = " ".join(part for part in (reject["at"], reject["id"] and f"({reject['id']})") if part)
        print(f"  {place}: {reject['reason']}: {reject['detail']}")
    if len(rejects) > TOLD:
        print(f"  and {len(rejects) - TOLD:,} more")


def _row(bill: Mapping[str, Any]) -> list[str]:
    used, totals = bill["card_seconds"], bill["totals"]
    times = (used["allocated"], used["billable"] + used["padding"], used["allocated"] - used["billable"])
    money = (totals["list"], totals["discounts"], totals["credits"], totals["due"], bill["currency"])
    return [bill["account"], bill["month"], *(hours(seconds) for seconds in times), *money]
