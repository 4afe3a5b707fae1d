"""Sums of many fractions, and an exact figure as text; nothing here rounds (R16)."""

from collections import defaultdict
from collections.abc import Hashable, Iterable
from fractions import Fraction
from math import gcd
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)


def exact_sum(values: Iterable[Fraction]) -> Fraction:
    """The sum of fractions, added up by denominator first and then in pairs.

    Caps give every instance and day a denominator of its own. Added one after the other, each step would carry the
    whole common denominator; in pairs only the last few steps do.
    """
    by_denominator: dict[int, int] = defaultdict(int)
    for value in values:
        by_denominator[value.denominator] += value.numerator
    return _sum_of_parts(by_denominator)


def sums_by_key(pairs: Iterable[tuple[Key, Fraction]]) -> dict[Key, Fraction]:
    """The exact sum of the values of each key, keys in the order in which they first came."""
    parts: dict[Key, dict[int, int]] = {}
    for key, value in pairs:
        by_denominator = parts.get(key)
        if by_denominator is None:
            by_denominator = parts[key] = {}
        denominator = value.denominator
        by_denominator[denominator] = by_denominator.get(denominator, 0) + value.numerator
    return {key: _sum_of_parts(by_denominator) for key, by_denominator in parts.items()}


def _sum_of_parts(by_denominator: dict[int, int]) -> Fraction:
    parts = [(numerator, denominator) for denominator, numerator in sorted(by_denominator.items())]
    while len(parts) > 1:
        paired = [_added(*parts[i], *parts[i + 1]) for i in range(0, len(parts) - 1, 2)]
        parts = paired + parts[2 * len(paired) :]
    return Fraction(*parts[0]) if parts else Fraction(0)


def _added(numerator: int, denominator: int, other: int, other_denominator: int) -> tuple[int, int]:
    common = gcd(denominator, other_denominator)
    up, other_up = other_denominator // common, denominator // common
    return numerator * up + other * other_up, denominator * up


def exact_text(value: Fraction, digits: int = 0) -> str:
    """A figure without loss: a decimal of at least ``digits`` places where it ends, else ``n/d``."""
    twos, rest = _power_of(2, value.denominator)
    fives, rest = _power_of(5, rest)
    if rest != 1:
        return f"{value.numerator}/{value.denominator}"
    places = max(twos, fives, digits)
    scaled = abs(value.numerator) * 10**places // value.denominator
    whole, part = divmod(scaled, 10**places)
    return ("-" if value < 0 else "") + (f"{whole}.{part:0{places}d}" if places else str(whole))


def _power_of(base: int, number: int) -> tuple[int, int]:
    power = 0
    while number % base == 0:
        number, power = number // base, power + 1
    return power, number
