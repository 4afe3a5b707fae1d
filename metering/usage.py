"""From pieces of a timeline to the summed usage that a bill is made of (R2, R16)."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from core.calendar import Calendar, month_of_day
from metering.pieces import PACK, PADDING, PIECE_NAMES, REFUND, Piece
from pricing.usage import MonthUsage, Rental, Usage

InstancePiece = tuple[str, Piece]


class Cut(NamedTuple):
    """A part of a piece inside one billing day and credit window: the day, its first second, its quantity."""

    day: int
    at: int
    end: int
    quantity: int


def cuts_of(piece: Piece, calendar: Calendar, instants: Sequence[int] = ()) -> Iterator[Cut]:
    """A piece cut at day boundaries and at the sorted ``instants``; charges and refunds are whole where they happen."""
    if piece.kind in (PACK, PADDING, REFUND):
        yield Cut(calendar.day_of(piece.start), piece.start, piece.end, piece.quantity)
        return
    start = piece.start
    each = piece.quantity // (piece.end - piece.start)
    while start < piece.end:
        day, stop = calendar.day_and_end(start)
        index = bisect_right(instants, start)
        stop = min(stop, piece.end, instants[index] if index < len(instants) else stop)
        yield Cut(day, start, stop, (stop - start) * each)
        start = stop


def month_usage(pieces: Iterable[InstancePiece], calendar: Calendar, instants: Sequence[int]) -> list[MonthUsage]:
    """One account's usage by billing month; ``instants`` are those at which any of its credits begins or ends."""
    sums: dict[tuple[int, Usage], int] = defaultdict(int)
    held: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for instance, piece in pieces:
        series = piece.series
        for cut in cuts_of(piece, calendar, instants):
            window = bisect_right(instants, cut.at)
            day_start = calendar.day_start(cut.day)
            at = max(day_start, instants[window - 1]) if window else day_start
            row = Usage(
                PIECE_NAMES[piece.kind], instance, piece.run, series.project, series.sku, series.plan, series.region,
                cut.day, at, piece.price, 0, piece.pack,
            )  # fmt: skip
            sums[(month_of_day(cut.day), row)] += cut.quantity
            if piece.kind not in (PACK, PADDING, REFUND):
                held[(instance, cut.day)].append((cut.at, cut.end))
    return _by_month(sums, held)


def rentals_of(pieces: Iterable[InstancePiece]) -> list[Rental]:
    """How far each session has run, by its allocated time (R21)."""
    ends: dict[tuple[str, int], int] = {}
    for instance, piece in pieces:
        if piece.kind not in (PACK, PADDING, REFUND):
            key = (instance, piece.run)
            ends[key] = max(ends.get(key, 0), piece.end)
    return [Rental(instance, start, end) for (instance, start), end in sorted(ends.items())]


def covered_seconds(stretches: Iterable[tuple[int, int]]) -> int:
    """Seconds in at least one of the stretches."""
    total, reached = 0, -(2**62)
    for start, end in sorted(stretches):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def _by_month(
    sums: dict[tuple[int, Usage], int], held: dict[tuple[str, int], list[tuple[int, int]]]
) -> list[MonthUsage]:
    rows: dict[int, list[Usage]] = defaultdict(list)
    for (month, row), quantity in sums.items():
        rows[month].append(_with_quantity(row, quantity))
    seconds: dict[int, dict[tuple[str, int], int]] = defaultdict(dict)
    for (instance, day), stretches in held.items():
        seconds[month_of_day(day)][(instance, day)] = covered_seconds(stretches)
    return [MonthUsage(month, tuple(rows[month]), seconds[month]) for month in sorted(rows)]


def _with_quantity(row: Usage, quantity: int) -> Usage:
    return Usage(
        row.kind, row.instance, row.rental, row.project, row.sku, row.plan, row.region, row.day, row.at, row.price,
        quantity, row.pack,
    )  # fmt: skip
