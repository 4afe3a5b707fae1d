"""What a person sees: tables of bills, and the JSON objects that programs read."""

import json
import sys
from collections.abc import Mapping
from typing import Any


def print_json(value: Mapping[str, Any]) -> None:
    """One JSON object on standard output."""
    json.dump(value, sys.stdout, ensure_ascii=False, indent=1)
    sys.stdout.write("\n")


def hours(card_seconds: int) -> str:
    """Card-seconds as card-hours with two digits, for the eye only."""
    hundredths = (card_seconds + 18) // 36
    return f"{hundredths // 100:,}.{hundredths % 100:02d}"


def print_bills(answer: Mapping[str, Any]) -> None:
    """The bills of ``rate`` and ``bills`` as a table."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Bills")
    for name in ("account", "month"):
        table.add_column(name)
    for name in ("card-hours", "billed", "excluded", "list", "discounts", "credits", "due", ""):
        table.add_column(name, justify="right")
    for bill in answer["bills"]:
        used, totals = bill["card_seconds"], bill["totals"]
        billed = used["billable"] + used["padding"]
        table.add_row(
            bill["account"], bill["month"], hours(used["allocated"]), hours(billed),
            hours(used["allocated"] - used["billable"]), totals["list"], totals["discounts"], totals["credits"],
            totals["due"], bill["currency"],
        )  # fmt: skip
    console = Console()
    console.print(table)
    told = f"{len(answer['rejects'])} rejects, {answer['duplicates']} duplicates, {len(answer['anomalies'])} anomalies"
    console.print(told)
    for reject in answer["rejects"][:20]:
        console.print(f"  {reject['reason']}: {reject['at']} {reject['id'] or ''} {reject['detail']}", markup=False)
