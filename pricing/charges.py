"""Charged time from card-seconds to exact lines: the arithmetic between the rules, whose order is in ``bill``."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from pricing.caps import CapFactors, Charges, instance_capped
from pricing.exact import exact_sum, sums_by_key
from pricing.lines import ExactLine
from pricing.packs import PackTerms
from pricing.quantities import Cell, LineKey, Quantities
from pricing.rebate import Netted, RentalKey
from pricing.usage import Pack

HOUR = 3600

Prices = Mapping[LineKey, Fraction]
"""A price per card-hour for each line."""


@dataclass(frozen=True, slots=True)
class Rates:
    """What each part of a line comes to: the terms of a month after they have met its quantities.

    These are the exact proportions by which a view by day, instance or project splits a rounded line (R17). ``units``
    are prices after tiers and contract discount. The account's cap is left out: it takes from all parts alike.
    """

    units: Prices
    netted: Netted
    caps: CapFactors
    packs: PackTerms

    def unit(self, line: LineKey, instance: str, day: int, rental: int, pack: Pack | None) -> tuple[Fraction, Fraction]:
        """List amount and charge of one unit of a line, used by an instance on a day of a rental."""
        if pack is not None:
            return self.packs.unit(line, pack)
        charge = charge_of(Cell(line, 0, instance, day, rental), 1, self.units, self.netted)
        return line.price / HOUR, self.caps.of_instance(charge, instance, day)


def charge_of(cell: Cell, seconds: int, units: Prices, netted: Netted) -> Fraction:
    """The charge of some card-seconds before any cap, at prices after tiers and contract discount."""
    amount = units[cell.line] * seconds / HOUR
    return netted.of(amount, cell.instance, cell.rental, cell.line.plan) if netted.rentals else amount


def usage_lines(sums: Quantities, tiered: Prices, units: Prices, charges: Charges, caps: CapFactors) -> list[ExactLine]:
    """The exact lines of charged time, with what is left of them after each step."""
    seconds = sums.charged_by_line()
    netted = sums_by_key((cell.line, amount) for cell, amount in charges.items())
    windows = _by_line_and_window(charges, caps)
    lines = []
    for line, quantity in seconds.items():
        hours = Fraction(quantity, HOUR)
        charge = exact_sum(windows[line].values())
        steps = (
            ("tier", tiered[line] * hours),
            ("contract", units[line] * hours),
            ("rebate", netted[line]),
            ("cap", charge),
        )
        billable, padding = sums.billable.get(line, 0), sums.padding.get(line, 0)
        lines.append(ExactLine(line, billable, padding, line.price * hours, steps, windows[line]))
    return lines


def _by_line_and_window(charges: Charges, caps: CapFactors) -> dict[LineKey, dict[int, Fraction]]:
    sums = sums_by_key(((cell.line, cell.window), amount) for cell, amount in instance_capped(charges, caps))
    windows: dict[LineKey, dict[int, Fraction]] = {}
    for (line, window), amount in sums.items():
        windows.setdefault(line, {})[window] = amount * caps.account
    return windows


def charges_by_rental(charges: Charges, caps: CapFactors) -> dict[RentalKey, dict[str, Fraction]]:
    """The exact charges of each rental by plan, after all caps."""
    sums = sums_by_key(
        ((cell.instance, cell.rental, cell.line.plan), amount) for cell, amount in instance_capped(charges, caps)
    )
    rentals: dict[RentalKey, dict[str, Fraction]] = {}
    for (instance, start, plan), amount in sums.items():
        rentals.setdefault((instance, start), {})[plan] = amount * caps.account
    return rentals
