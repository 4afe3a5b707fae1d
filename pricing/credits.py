"""Credits: which grant pays for what, in one total order and never below zero (R19).

Amounts are minor units. A grant with a fraction of a minor unit can only spend the whole units in it.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import NamedTuple

from core.money import from_minor
from pricing.contract import Credit
from pricing.lines import LATER, RoundedLine
from pricing.quantities import LineKey
from pricing.windows import Windows


@dataclass(frozen=True, slots=True)
class CreditUse:
    """What one credit did in a month: paid, still has, and lost at its expiry."""

    id: str
    kind: str
    applied: Decimal
    left: Decimal
    lapsed: Decimal


class Payable(NamedTuple):
    """What a line asks for in one window, in minor units; they sort in the order in which they are paid."""

    window: int
    after_packs: bool
    sku: str
    plan: str
    region: str
    price: Fraction
    amount: int
    line: LineKey


Paid = dict[LineKey, dict[int, dict[str, int]]]
"""What each credit paid, by line and window."""


def opening_balances(credits: Iterable[Credit], digits: int) -> dict[str, int]:
    """What each grant may spend in all; two grants of one id are a bug of the caller and raise."""
    balances: dict[str, int] = {}
    for credit in credits:
        if credit.id in balances:
            raise ValueError(f"two credits have the id {credit.id}")
        balances[credit.id] = (credit.amount * 10**digits).__floor__()
    return balances


def reduce_balances(credits: Iterable[Credit], month: int, balances: dict[str, int], digits: int) -> None:
    """Take off what a month's reductions ask for, never more than is left."""
    for credit in credits:
        asked = sum((amount for when, amount in credit.reductions if when == month), Fraction(0))
        balances[credit.id] -= min(balances[credit.id], (asked * 10**digits).__floor__())


def in_order(credits: Iterable[Credit], balances: Mapping[str, int]) -> list[Credit]:
    """The total order in which credits pay, by their balances at the first second of the month."""
    return sorted(
        credits, key=lambda credit: (_width(credit), credit.expires, balances[credit.id], credit.since, credit.id)
    )


def _width(credit: Credit) -> tuple[int, int]:
    """Narrower is less: exact SKUs (fewer first), patterns (longer first), everything.

    A list is as wide as its widest entry, so its shortest pattern speaks for it.
    """
    patterns = [sku for sku in credit.skus if any(mark in sku for mark in "*?[")]
    if not credit.skus or "*" in patterns:
        return 2, 0
    return (1, -min(map(len, patterns))) if patterns else (0, len(set(credit.skus)))


def covers(credit: Credit, sku: str) -> bool:
    """Whether a SKU is within the scope of a credit."""
    return not credit.skus or any(fnmatchcase(sku, pattern) for pattern in credit.skus)


def payables(lines: Iterable[RoundedLine]) -> list[Payable]:
    """What credits may pay: usage, and packs less their exclusion credits, never below zero, oldest window first."""
    asked: dict[tuple[LineKey, int], int] = defaultdict(int)
    for line in lines:
        key = line.key._replace(kind="pack") if line.key.kind == "pack_exclusion" else line.key
        for window, amount in line.windows.items():
            if window != LATER:
                asked[key, window] += amount
    return sorted(
        Payable(window, key.kind != "pack", key.sku, key.plan, key.region, key.price, amount, key)
        for (key, window), amount in asked.items()
        if amount > 0
    )


def pay(asked: Sequence[Payable], credits: Sequence[Credit], windows: Windows, balances: dict[str, int]) -> Paid:
    """Let credits in their order pay for what is asked in its order; ``balances`` are lowered by what they pay."""
    paid: Paid = defaultdict(lambda: defaultdict(dict))
    scope = {sku: [credit for credit in credits if covers(credit, sku)] for sku in {item.sku for item in asked}}
    for item in asked:
        open_amount = item.amount
        for credit in scope[item.sku]:
            if not open_amount:
                break
            amount = min(open_amount, balances[credit.id])
            if amount and windows.within(item.window, credit):
                paid[item.line][item.window][credit.id] = amount
                balances[credit.id] -= amount
                open_amount -= amount
    return paid


def credit_uses(
    credits: Iterable[Credit], paid: Paid, windows: Windows, balances: dict[str, int], as_of: int, digits: int
) -> tuple[CreditUse, ...]:
    """The credits whose validity touches the month, with what they paid; what expires by its end or as-of lapses."""
    applied: dict[str, int] = defaultdict(int)
    for by_window in paid.values():
        for by_credit in by_window.values():
            for credit_id, amount in by_credit.items():
                applied[credit_id] += amount
    uses = []
    for credit in credits:
        if credit.since < windows.end and credit.expires > windows.starts[0]:
            lapsed = balances[credit.id] if credit.expires <= min(as_of, windows.end) else 0
            balances[credit.id] -= lapsed
            amounts = (applied[credit.id], balances[credit.id], lapsed)
            uses.append(CreditUse(credit.id, credit.kind, *(from_minor(amount, digits) for amount in amounts)))
    return tuple(uses)
