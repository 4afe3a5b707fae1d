"""Exact money: figures are fractions until they are rounded, once, to the currency's minor unit (R16, R17).

No binary floating point enters this module, and nothing else in the project rounds.
"""

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import lcm

from babel.numbers import get_currency_precision, is_currency


@lru_cache
def minor_digits(currency: str) -> int:
    """Digits after the point of a currency's minor unit by ISO 4217: CNY 2, USD 2, JPY 0."""
    if not is_currency(currency):
        raise ValueError(f"{currency!r} is not an ISO 4217 currency")
    return get_currency_precision(currency)


def round_half_up(exact: Fraction, digits: int) -> Decimal:
    """The one rounding of the project: to ``digits`` decimals, half away from zero (R16)."""
    return from_minor(minor_units(exact, digits), digits)


def minor_units(exact: Fraction, digits: int) -> int:
    """The same rounding, in units of the minor unit."""
    over, under = exact.numerator * 10**digits, exact.denominator
    units = (2 * abs(over) + under) // (2 * under)
    return int(-units if over < 0 else units)


def from_minor(units: int, digits: int) -> Decimal:
    """``units`` of the minor unit as a decimal that shows all its digits: (150, 2) is 1.50."""
    if not digits:
        return Decimal(units)
    shown = str(abs(units)).rjust(digits + 1, "0")
    return Decimal(f"{'-' if units < 0 else ''}{shown[:-digits]}.{shown[-digits:]}")


def to_minor(amount: Decimal, digits: int) -> int:
    """A rounded amount in minor units; an amount with more digits is a bug and raises."""
    units = Fraction(amount) * 10**digits
    if units.denominator != 1:
        raise ValueError(f"{amount} is not rounded to {digits} digits")
    return int(units)


def split_largest_remainder(total: int, weights: Sequence[Fraction | int]) -> list[int]:
    """Split ``total`` minor units over weights of one sign so that the parts add up to it (R17).

    Each part is first cut down towards zero; the units that are left go to the largest remainders, the earlier of
    equals first. Weights that are all zero put the whole into the first part.
    """
    if not weights:
        if total:
            raise ValueError("nothing to split over")
        return []
    common = lcm(*(weight.denominator for weight in weights))
    sizes = [abs(weight.numerator) * (common // weight.denominator) for weight in weights]
    whole = sum(sizes)
    if not whole:
        return [total, *([0] * (len(weights) - 1))]
    shares = [divmod(abs(total) * size, whole) for size in sizes]
    left = abs(total) - sum(part for part, _ in shares)
    order = sorted(range(len(shares)), key=lambda i: -shares[i][1])
    more = set(order[:left])
    sign = -1 if total < 0 else 1
    return [sign * (part + (i in more)) for i, (part, _) in enumerate(shares)]
