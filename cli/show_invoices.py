"""What a person sees of invoices and closes."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

MONEY = ("list", "discounts", "credits", "tax", "due")
CLASSES = ("billable", "padding", "failure", "migration", "maintenance", "unknown", "idle")


def print_close(answer: Mapping[str, Any], folder: str) -> None:
    """What a close did: its invoices, then what needs a person."""
    from rich.console import Console

    console = Console()
    if answer["issued"]:
        print_invoices(answer["issued"])
    told = f"{answer['month']}: {len(answer['issued'])} invoices issued, {answer['known']} were issued before"
    console.print(told + (f"; files in {folder}" if folder else ""), markup=False, soft_wrap=True)
    for held in answer["held"]:
        console.print(
            f"held: {held['account'] or '(no account)'}, {len(held['questions'])} open questions", markup=False
        )
        for asked in held["questions"][:5]:
            console.print(f"  {asked['kind']} {asked['instance']} at {asked['at']}: {asked['detail']}", markup=False)
    for each in answer["unproven"]:
        console.print(
            f"unproven: {each['instance']} runs, but is proven only until {each['proven_until']}", markup=False
        )
    if answer["earlier_months_open"]:
        console.print(f"not closed yet: {', '.join(answer['earlier_months_open'])}", markup=False)


def print_invoices(documents: Sequence[Mapping[str, Any]]) -> None:
    """Invoices by month and currency: card-hours by class, then money, each with its sum."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=120)
    groups = sorted({(each["month"], each["currency"]) for each in documents})
    for month, currency in groups:
        own = [each for each in documents if (each["month"], each["currency"]) == (month, currency)]
        console.print(_hours_table(month, own))
        console.print(_money_table(month, currency, own))
        if any(each["corrections"] for each in own):
            console.print("* with corrections of earlier months")


def _hours_table(month: str, documents: Sequence[Mapping[str, Any]]) -> Any:
    from cli.show import hours

    used = [name for name in CLASSES if any(each["card_seconds"].get(name) for each in documents)]
    table = _table(f"{month}: card-hours by class", ("account",), used)
    for each in documents:
        table.add_row(each["account"], *(hours(each["card_seconds"].get(name, 0)) for name in used))
    table.add_section()
    sums = [sum(each["card_seconds"].get(name, 0) for each in documents) for name in used]
    table.add_row("all", *map(hours, sums), style="bold")
    return table


def _money_table(month: str, currency: str, documents: Sequence[Mapping[str, Any]]) -> Any:
    table = _table(f"{month}: invoices, {currency}", ("number", "account"), MONEY)
    for each in documents:
        name = each["account"] + ("*" if each["corrections"] else "")
        table.add_row(each["number"], name, *(f"{Decimal(each['totals'][part]):,}" for part in MONEY))
    table.add_section()
    sums = [sum((Decimal(each["totals"][part]) for each in documents), Decimal(0)) for part in MONEY]
    table.add_row("", "all", *(f"{amount:,}" for amount in sums), style="bold")
    return table


def _table(title: str, names: Sequence[str], figures: Sequence[str]) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, box=SIMPLE_HEAD, title_justify="left", title_style="bold")
    for name in names:
        table.add_column(name, no_wrap=True)
    for name in figures:
        table.add_column(name, justify="right", no_wrap=True)
    return table
