"""Tax: one rounding per rate, on the cash part of all lines of that rate (R18)."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from core.money import from_minor, round_half_up
from pricing.book import PriceBook, Tax
from pricing.lines import Line


@dataclass(frozen=True, slots=True)
class TaxPart:
    """What is taxed at one rate: net + tax is what it adds to the amount due.

    ``cash`` is what credits left of the charges; with tax included it is net + tax, else it is the net.
    """

    rate: Fraction
    included: bool
    cash: Decimal
    net: Decimal
    tax: Decimal


def tax_of(book: PriceBook, sku: str, plan: str) -> Tax:
    """The tax of a line: the plan's, else the SKU's, else the book's."""
    of_plan, of_sku = book.plans.get(plan), book.skus.get(sku)
    return (of_plan and of_plan.tax) or (of_sku and of_sku.tax) or book.tax


def tax_parts(lines: Iterable[Line], digits: int) -> tuple[TaxPart, ...]:
    """The tax of a bill by rate, in order of rate."""
    cash: dict[Tax, Decimal] = defaultdict(lambda: from_minor(0, digits))
    for line in lines:
        cash[line.tax] += line.cash
    order = sorted(cash, key=lambda tax: (tax.rate, tax.included))
    return tuple(_part(tax, cash[tax], digits) for tax in order)


def _part(tax: Tax, cash: Decimal, digits: int) -> TaxPart:
    if tax.included:
        net = round_half_up(Fraction(cash) / (1 + tax.rate), digits)
        return TaxPart(tax.rate, True, cash, net, cash - net)
    return TaxPart(tax.rate, False, cash, cash, round_half_up(Fraction(cash) * tax.rate, digits))
