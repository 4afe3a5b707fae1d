"""Lines: rounded once, with the discounts that lead from list to charge, and split over credit windows (R16, R17)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from core.money import from_minor, minor_units, split_largest_remainder
from pricing.book import Tax
from pricing.quantities import LineKey

LATER = -1
"""Stands for the window of what no credit can pay: refunds, and credit for packs of an earlier month."""


@dataclass(frozen=True, slots=True)
class ExactLine:
    """A line before it is rounded.

    ``steps`` say what is left after each step of the chain, by the name of its discount; the last is the charge.
    ``windows`` add up to the charge. Quantities are card-seconds, packs or card-days.
    """

    key: LineKey
    quantity: int
    padding: int
    list: Fraction
    steps: Sequence[tuple[str, Fraction]]
    windows: Mapping[int, Fraction]


@dataclass(frozen=True, slots=True)
class RoundedLine:
    """A line in minor units; ``discounts`` add up to list minus charge, ``windows`` to the charge."""

    key: LineKey
    quantity: int
    padding: int
    list: int
    charge: int
    discounts: Mapping[str, int]
    windows: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a bill (R16).

    ``quantity`` is in card-seconds of billable time (usage) or excluded time (pack_exclusion), packs (pack) or
    card-days (pack_refund); ``padding`` in card-seconds. ``discounts`` by name add up to list minus charge,
    ``credits`` are what each credit paid of it.
    """

    key: LineKey
    quantity: int
    padding: int
    list: Decimal
    charge: Decimal
    discounts: Mapping[str, Decimal]
    credits: Mapping[str, Decimal]
    tax: Tax

    @property
    def discount(self) -> Decimal:
        """What all discounts take off together."""
        return self.list - self.charge

    @property
    def cash(self) -> Decimal:
        """What credits leave to be paid."""
        return self.charge - sum(self.credits.values(), Decimal(0))


def rounded_line(line: ExactLine, digits: int) -> RoundedLine:
    """List and charge rounded once each; discounts are rounded running totals minus what is already shown (R17)."""
    shown = listed = minor_units(line.list, digits)
    discounts = {}
    for name, left in line.steps:
        after = minor_units(left, digits)
        if after != shown:
            discounts[name] = shown - after
        shown = after
    windows = sorted(line.windows.items(), key=lambda item: (item[0] == LATER, item[0]))
    parts = split_largest_remainder(shown, [exact for _, exact in windows])
    split = dict(zip((window for window, _ in windows), parts, strict=True))
    return RoundedLine(line.key, line.quantity, line.padding, listed, shown, discounts, split)


def finished_line(line: RoundedLine, credits: Mapping[str, int], tax: Tax, digits: int) -> Line:
    """The line as a bill shows it."""
    return Line(
        line.key,
        line.quantity,
        line.padding,
        from_minor(line.list, digits),
        from_minor(line.charge, digits),
        {name: from_minor(units, digits) for name, units in line.discounts.items()},
        {credit: from_minor(units, digits) for credit, units in sorted(credits.items())},
        tax,
    )
