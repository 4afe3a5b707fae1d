"""Sets of card numbers as sorted, disjoint half-open ranges; the set of all cards is ``ALL``."""

from collections.abc import Iterable, Sequence
from functools import lru_cache

Ranges = tuple[tuple[int, int], ...]

END = 2**31
ALL: Ranges = ((0, END),)
NONE: Ranges = ()


def first(count: int) -> Ranges:
    """The cards of an instance that has ``count`` of them."""
    return ((0, count),) if count else NONE


def of(numbers: Iterable[int]) -> Ranges:
    """The set of the numbers given."""
    return _merged(sorted([(number, number + 1) for number in set(numbers)]))


def union(one: Ranges, other: Ranges) -> Ranges:
    """Cards in either set."""
    return _merged(sorted((*one, *other)))


def intersection(one: Ranges, other: Ranges) -> Ranges:
    """Cards in both sets."""
    if one == other:
        return one
    found = []
    for low, high in one:
        for start, end in other:
            if start < high and low < end:
                found.append((max(low, start), min(high, end)))
    found.sort()
    return tuple(found)


def difference(one: Ranges, other: Ranges) -> Ranges:
    """Cards of the first set that are not in the second."""
    if not other or not one:
        return one
    return NONE if one == other else intersection(one, _complement(other))


def count(ranges: Ranges) -> int:
    """How many cards a set has."""
    total = 0
    for low, high in ranges:
        total += high - low
    return total


@lru_cache(maxsize=1000)
def text(ranges: Ranges) -> str:
    """A set as a person writes it: ``0-3,7``."""
    return ",".join(f"{low}-{high - 1}" if high - low > 1 else f"{low}" for low, high in ranges)


def parse(written: str) -> Ranges:
    """The set that ``text`` wrote."""
    pairs = (part.partition("-") for part in written.split(",") if part)
    return tuple((int(low), int(high or low) + 1) for low, _, high in pairs)


def _complement(ranges: Ranges) -> Ranges:
    edges = [0, *(edge for pair in ranges for edge in pair), END]
    return tuple((low, high) for low, high in zip(edges[::2], edges[1::2], strict=True) if low < high)


def _merged(pairs: Sequence[tuple[int, int]]) -> Ranges:
    merged: list[tuple[int, int]] = []
    for low, high in pairs:
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)
