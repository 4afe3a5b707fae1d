"""From rows of usage to the sums that a bill asks for: integers only, before any price (R13, R16).

What is charged is summed by line, and finer only where the terms of the month ask: by credit window where a credit
begins or ends inside the month, by instance and day for caps, by rental for the long-term rebate.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, NamedTuple

from pricing.usage import TIME_CLASSES, Pack, Usage
from pricing.windows import Windows

LineKind = Literal["usage", "pack", "pack_exclusion", "pack_refund"]

PACK_LINES: Mapping[str, LineKind] = {"pack": "pack", "pack_refund": "pack_refund"}
"""The lines of rows that count packs; all other rows under a pack are time, credited where it was excluded."""


class LineKey(NamedTuple):
    """What makes a line one line, stable from one computation of a month to the next."""

    kind: LineKind
    sku: str
    plan: str
    region: str
    price: Fraction


class Cell(NamedTuple):
    """Charged time of one line that no rule of the month tells apart; fields no rule reads are empty."""

    line: LineKey
    window: int
    instance: str
    day: int
    rental: int


@dataclass(frozen=True, slots=True)
class Detail:
    """How finely the terms of a month look at charged time."""

    instance: bool
    day: bool
    rental: bool


@dataclass(slots=True)
class Quantities:
    """The sums of one month: card-seconds, packs and card-days."""

    by_class: dict[str, int] = field(default_factory=lambda: dict.fromkeys((*TIME_CLASSES, "padding"), 0))
    billable: dict[LineKey, int] = field(default_factory=lambda: defaultdict(int))
    padding: dict[LineKey, int] = field(default_factory=lambda: defaultdict(int))
    charged: dict[Cell, int] = field(default_factory=lambda: defaultdict(int))
    allocated: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))
    packs: dict[LineKey, dict[Pack, int]] = field(default_factory=dict)

    def charged_by_line(self) -> dict[LineKey, int]:
        """Card-seconds that tiers count: billable outside packs, and padding."""
        lines = dict.fromkeys((*self.billable, *self.padding))
        return {line: self.billable.get(line, 0) + self.padding.get(line, 0) for line in lines}

    def card_seconds(self) -> dict[str, int]:
        """Card-seconds by class, with ``allocated``, the sum of all but padding (R5)."""
        return {"allocated": sum(self.by_class[name] for name in TIME_CLASSES), **self.by_class}


def line_key(row: Usage) -> LineKey | None:
    """The line that a row is charged or credited on; None for time that costs nothing and gives nothing back."""
    if row.kind in ("billable", "padding"):
        return LineKey("usage", row.sku, row.plan, row.region, row.price) if row.pack is None else None
    if row.pack is None:
        return None
    return LineKey(PACK_LINES.get(row.kind, "pack_exclusion"), row.sku, row.plan, row.region, row.pack.price)


def summed(rows: Iterable[Usage], windows: Windows, detail: Detail) -> Quantities:
    """All sums of a month's rows, in one pass."""
    sums = Quantities()
    for row in rows:
        if row.kind in sums.by_class:
            sums.by_class[row.kind] += row.quantity
            if detail.instance and row.kind != "padding":
                sums.allocated[row.instance, row.day] += row.quantity
        line = line_key(row)
        if line is None or not row.quantity:
            continue
        if line.kind == "usage":
            (sums.padding if row.kind == "padding" else sums.billable)[line] += row.quantity
            sums.charged[_cell(line, row, windows, detail)] += row.quantity
        elif row.pack is not None:
            starts = sums.packs.setdefault(line, {})
            starts[row.pack] = starts.get(row.pack, 0) + row.quantity
    return sums


def _cell(line: LineKey, row: Usage, windows: Windows, detail: Detail) -> Cell:
    return Cell(
        line,
        windows.index(row.at),
        row.instance if detail.instance else "",
        row.day if detail.day else 0,
        row.rental if detail.rental else 0,
    )
