"""From pieces of a timeline to the summed usage that a bill is made of (R2, R16)."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from core.calendar import Calendar, month_of_day
from metering.pieces import PACK, PADDING, PIECE_NAMES, REFUND, Piece
from pricing.usage import MonthUsage, Rental, Usage

WHOLE_KINDS = (PACK, PADDING, REFUND)
"""Pieces that belong whole to the day in which they start."""


class Cut(NamedTuple):
    """A part of a piece inside one billing day and credit window: the day, its stretch, its quantity."""

    day: int
    at: int
    end: int
    quantity: int


def cuts_of(piece: Piece, calendar: Calendar, instants: Sequence[int] = ()) -> Iterator[Cut]:
    """A piece cut at day boundaries and at the sorted ``instants``; charges and refunds are whole where they happen."""
    if piece.kind in WHOLE_KINDS:
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


class UsageSums:
    """One account's usage as it adds up; ``instants`` are those at which any of its credits begins or ends."""

    def __init__(self, calendar: Calendar, instants: Iterable[int]) -> None:
        self._calendar = calendar
        self._instants = sorted(set(instants))
        self._sums: dict[int, dict[Usage, int]] = defaultdict(lambda: defaultdict(int))
        self._held: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
        self._ends: dict[tuple[str, int], int] = {}

    def add(self, instance: str, piece: Piece) -> None:
        """Count a piece in, with the time that it holds cards and how far it takes its session."""
        for cut in cuts_of(piece, self._calendar, self._instants):
            self.add_quantity(instance, piece, cut.day, self._window_start(cut), cut.quantity)
            if piece.kind not in WHOLE_KINDS:
                self.add_held(instance, cut.day, cut.at, cut.end)
        if piece.kind not in WHOLE_KINDS:
            self.add_reach(instance, piece.run, piece.end)

    def add_quantity(self, instance: str, piece: Piece, day: int, at: int, quantity: int) -> None:
        """Count a quantity like the piece's in one day and credit window; ``at`` is the first second of both."""
        series = piece.series
        row = Usage(
            PIECE_NAMES[piece.kind], instance, piece.run, series.project, series.sku, series.plan, series.region, day,
            at, piece.price, 0, piece.pack,
        )  # fmt: skip
        self._sums[month_of_day(day)][row] += quantity

    def add_held(self, instance: str, day: int, start: int, end: int) -> None:
        """Note that an instance held cards for a stretch inside a day."""
        self._held[(instance, day)].append((start, end))

    def add_reach(self, instance: str, run: int, end: int) -> None:
        """Note that a session has run up to an instant."""
        self._ends[(instance, run)] = max(self._ends.get((instance, run), 0), end)

    def splits_day(self, day: int) -> bool:
        """Whether a credit begins or ends inside a day."""
        start, end = self._calendar.day_start(day), self._calendar.day_start(day + 1)
        index = bisect_right(self._instants, start)
        return index < len(self._instants) and self._instants[index] < end

    def months(self) -> list[MonthUsage]:
        """What has been counted, by billing month."""
        seconds: dict[int, dict[tuple[str, int], int]] = defaultdict(dict)
        for (instance, day), stretches in self._held.items():
            seconds[month_of_day(day)][(instance, day)] = covered_seconds(stretches)
        return [
            MonthUsage(month, tuple(_with_quantity(row, quantity) for row, quantity in rows.items()), seconds[month])
            for month, rows in sorted(self._sums.items())
        ]

    def rentals(self) -> list[Rental]:
        """How far each session has run, by its allocated time (R21)."""
        return [Rental(instance, start, end) for (instance, start), end in sorted(self._ends.items())]

    def _window_start(self, cut: Cut) -> int:
        start = self._calendar.day_start(cut.day)
        window = bisect_right(self._instants, cut.at)
        return max(start, self._instants[window - 1]) if window else start


def covered_seconds(stretches: Iterable[tuple[int, int]]) -> int:
    """Seconds in at least one of the stretches."""
    total, reached = 0, -(2**62)
    for start, end in sorted(stretches):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def _with_quantity(row: Usage, quantity: int) -> Usage:
    return Usage(
        row.kind, row.instance, row.rental, row.project, row.sku, row.plan, row.region, row.day, row.at, row.price,
        quantity, row.pack,
    )  # fmt: skip
