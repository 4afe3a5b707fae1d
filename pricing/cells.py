"""A rounded line split once into cells of day, instance and project; every other view sums these cells (R17).

Ties of the largest remainder go to the earlier day, then the instance, then the project.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import lcm
from typing import Literal, NamedTuple

from core.money import from_minor, minor_digits, split_largest_remainder, to_minor
from pricing.charges import Rates
from pricing.lines import Line
from pricing.quantities import LineKey, line_key
from pricing.statement import Bill
from pricing.usage import Pack, Usage

EXACT_BITS = 1024
"""Weights whose common denominator is longer are cut to a fixed point of this many bits."""


class Place(NamedTuple):
    """Where a part of a line was used; places sort as ties are broken."""

    day: int
    instance: str
    project: str


@dataclass(frozen=True, slots=True)
class LineCell:
    """The part of a line at one place; quantities as in the line, amounts rounded."""

    place: Place
    quantity: int
    padding: int
    list: Decimal
    charge: Decimal
    credits: Mapping[str, Decimal]


@dataclass(slots=True)
class Exact:
    """What a line comes to at one place before any rounding."""

    quantity: int = 0
    padding: int = 0
    list: Fraction = Fraction(0)
    charge: Fraction = Fraction(0)


Exacts = dict[LineKey, dict[Place, Exact]]


def split_bill(bill: Bill, rows: Iterable[Usage]) -> dict[LineKey, tuple[LineCell, ...]]:
    """Every line of a bill in cells, from the month's rows with instance, rental, day and project in full.

    The rows must be those of the bill: quantities that do not foot to a line are a bug and raise.
    """
    places = exact_places(bill.rates, rows)
    digits = minor_digits(bill.currency)
    if places.keys() != {line.key for line in bill.lines}:
        raise ValueError(f"rows and bill of {bill.account} do not have the same lines")
    return {line.key: split_line(line, places[line.key], digits) for line in bill.lines}


def exact_places(rates: Rates, rows: Iterable[Usage]) -> Exacts:
    """The exact figures of each line by place; card-seconds are summed before they are priced."""
    sums: dict[tuple[LineKey, Place, int, Pack | None, bool], int] = defaultdict(int)
    for row in rows:
        line = line_key(row)
        if line is not None and row.quantity:
            place = Place(row.day, row.instance, row.project)
            sums[line, place, row.rental, row.pack, row.kind == "padding"] += row.quantity
    exacts: Exacts = {}
    for (line, place, rental, pack, is_padding), quantity in sums.items():
        exact = exacts.setdefault(line, {}).setdefault(place, Exact())
        unit_list, unit_charge = rates.unit(line, place.instance, place.day, rental, pack)
        exact.list += unit_list * quantity
        exact.charge += unit_charge * quantity
        if is_padding:
            exact.padding += quantity
        else:
            exact.quantity += quantity
    return exacts


def split_line(line: Line, places: Mapping[Place, Exact], digits: int) -> tuple[LineCell, ...]:
    """A line in cells that add up to its list, its charge and each of its credits.

    List and charge are split by the exact figures, credits by what is still open of the charges of the cells, so
    that no cell is paid more than it costs.
    """
    if (line.quantity, line.padding) != (_total(places, "quantity"), _total(places, "padding")):
        raise ValueError(f"the quantities of {line.key} do not foot to its line")
    order = sorted(places)
    exacts = [places[place] for place in order]
    lists = split_largest_remainder(to_minor(line.list, digits), _weights([exact.list for exact in exacts]))
    charges = split_largest_remainder(to_minor(line.charge, digits), _weights([exact.charge for exact in exacts]))
    credits = _split_credits(line.credits, charges, digits)
    return tuple(
        LineCell(
            place,
            exact.quantity,
            exact.padding,
            from_minor(lists[i], digits),
            from_minor(charges[i], digits),
            {credit: from_minor(parts[i], digits) for credit, parts in credits.items() if parts[i]},
        )
        for i, (place, exact) in enumerate(zip(order, exacts, strict=True))
    )


def _split_credits(credits: Mapping[str, Decimal], charges: Sequence[int], digits: int) -> dict[str, list[int]]:
    """Each credit over what the ones before it left of the charges."""
    open_charges, split = list(charges), {}
    for credit, amount in credits.items():
        split[credit] = split_largest_remainder(to_minor(amount, digits), open_charges)
        open_charges = [left - part for left, part in zip(open_charges, split[credit], strict=True)]
    return split


def _total(places: Mapping[Place, Exact], name: Literal["quantity", "padding"]) -> int:
    return sum(getattr(exact, name) for exact in places.values())


def _weights(exact: Sequence[Fraction]) -> list[int]:
    """The figures as integers in the same proportions.

    Where caps leave thousands of unlike denominators their common one has millions of bits; then the figures are
    cut at a place that no amount of money can reach, equal ones alike.
    """
    common = 1
    for denominator in {value.denominator for value in exact}:
        common = lcm(common, denominator)
        if common.bit_length() > EXACT_BITS:
            return [(value.numerator << EXACT_BITS) // value.denominator for value in exact]
    return [value.numerator * (common // value.denominator) for value in exact]
