"""What a bill is made of: summed quantities, and nothing that order could change (R13, R16).

A ``Usage`` never straddles a billing day, a price, a pack or an instant at which a credit of the account begins or
ends. Callers may sum rows of equal keys beforehand: quantities add. Where no rule asks for them, ``instance`` may be
empty, ``rental`` 0 and ``at`` any instant of the same month and credit window.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

TIME_CLASSES = ("billable", "failure", "migration", "maintenance", "unknown", "idle")
"""The classes of allocated time (R5), in no order of precedence."""

Kind = Literal[
    "billable", "failure", "migration", "maintenance", "unknown", "idle", "padding", "pack", "pack_refund"
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pack:
    """The pack that covers a card: when it started, how long it is, what it cost per card (R12)."""

    start: int
    seconds: int
    price: Fraction


@dataclass(frozen=True, slots=True)
class Usage:
    """One summed quantity.

    kind       | quantity                                | price
    -----------|-----------------------------------------|---------------------------------
    time class | card-seconds                            | per card-hour; the pack's where ``pack`` is set
    padding    | card-seconds                            | per card-hour
    pack       | packs charged                           | per pack, as in ``pack``
    pack_refund| cards x unused days, the month's refund | per pack, as in ``pack``

    Billable time under a pack costs nothing more; excluded time under a pack is credited. ``rental`` is the first
    second of the session (overlaps merged) that the row belongs to; ``at`` is any second inside the row.
    """

    kind: Kind
    instance: str
    rental: int
    project: str
    sku: str
    plan: str
    region: str
    day: int
    at: int
    price: Fraction
    quantity: int
    pack: Pack | None = None


@dataclass(frozen=True, slots=True)
class Rental:
    """How far a session has run: wall-clock from ``start`` to ``end`` (its stop, its latest proof or as-of)."""

    instance: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class MonthUsage:
    """Everything one account used in one billing month.

    ``held_seconds`` gives, for each (instance, day), the seconds in which it had at least one card; it is read for
    instance caps only (R14).
    """

    month: int
    rows: tuple[Usage, ...]
    held_seconds: dict[tuple[str, int], int]
