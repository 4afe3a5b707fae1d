"""What a timeline is made of: pieces of classed time, pack charges and refunds, session ends to be rounded."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Final, NamedTuple

from metering import cards
from metering.cards import Ranges
from metering.events import BILLABLE, FAILURE, IDLE, MAINTENANCE, MIGRATION, UNKNOWN
from pricing.usage import Kind, Pack

PADDING: Final = 16
PACK: Final = 17
REFUND: Final = 18
"""Kinds of pieces beside the classes of time (``metering.events``)."""

PIECE_NAMES: Final[dict[int, Kind]] = {
    FAILURE: "failure", MIGRATION: "migration", MAINTENANCE: "maintenance", UNKNOWN: "unknown", IDLE: "idle",
    BILLABLE: "billable", PADDING: "padding", PACK: "pack", REFUND: "pack_refund",
}  # fmt: skip


class Series(NamedTuple):
    """Whose usage of what, where: the key that all pieces of one line and project share."""

    account: str
    project: str
    sku: str
    plan: str
    region: str


class Piece(NamedTuple):
    """A stretch ``[start, end)`` of one kind on some cards.

    ``quantity`` is in card-seconds for time and padding, packs for PACK (whose stretch is the pack's), and cards x
    unused days for REFUND. ``price`` is per card-hour, under a pack the pack's per card. ``run`` is the start of the
    session (overlaps merged). ``evidence`` are the sequence numbers of the events that opened what is told here.
    """

    kind: int
    start: int
    end: int
    cards: Ranges
    quantity: int
    series: Series
    price: Fraction
    run: int
    pack: Pack | None
    evidence: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rounding:
    """A session that ended at ``end`` on a plan that rounds: what each card's billable seconds are rounded by (R10).

    ``exempt`` are the cards that were under a pack at the last second.
    """

    run: int
    end: int
    unit_s: int
    minimum_s: int
    series: Series
    price: Fraction
    exempt: Ranges
    evidence: tuple[int, ...]

    def padding(self, billable: Iterable[tuple[Ranges, int]]) -> Piece:
        """The padding of the session from (cards, seconds each) of its billable time outside packs; may be zero."""
        quantity = 0
        for low, high, seconds in per_card(billable):
            open_cards = cards.count(cards.difference(((low, high),), self.exempt))
            if seconds and open_cards:
                rounded = -(-seconds // self.unit_s) * self.unit_s
                quantity += open_cards * (max(rounded, self.minimum_s) - seconds)
        last = self.end - 1
        return Piece(PADDING, last, self.end, (), quantity, self.series, self.price, self.run, None, self.evidence)


def per_card(spent: Iterable[tuple[Ranges, int]]) -> list[tuple[int, int, int]]:
    """(low, high, seconds) for each stretch of card numbers with equal totals."""
    steps: dict[int, int] = {}
    for ranges, seconds in spent:
        for low, high in ranges:
            steps[low] = steps.get(low, 0) + seconds
            steps[high] = steps.get(high, 0) - seconds
    edges = sorted(steps)
    found, total = [], 0
    for low, high in pairwise(edges):
        total += steps[low]
        found.append((low, high, total))
    return found


def billable_by_cards(pieces: Iterable[Piece], run: int) -> list[tuple[Ranges, int]]:
    """(cards, seconds) of a session's billable time outside packs, as ``Rounding.padding`` takes it."""
    return [(p.cards, p.end - p.start) for p in pieces if p.run == run and p.kind == BILLABLE and p.pack is None]
