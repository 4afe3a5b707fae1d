"""Packs: what they cost, what excluded time under them gives back, what an early stop refunds (R12).

Packs know the contract discount and nothing else. Inside the month of its charge a pack's excluded time is credited
on a line of its own. Later, and for refunds, only the share comes back that was paid in cash.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from core.calendar import Calendar
from pricing.exact import sums_by_key
from pricing.lines import LATER, ExactLine
from pricing.quantities import LineKey
from pricing.usage import Pack
from pricing.windows import Windows

DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class PaidPacks:
    """How the packs of one line were paid in the month of their charge: the cash share of each window."""

    windows: Windows
    discount: Fraction
    cash_shares: Mapping[int, Fraction] = field(default_factory=dict)


PaidByMonth = dict[tuple[LineKey, int], PaidPacks]
"""By the line of the pack charge and the month in which it was charged."""


@dataclass(frozen=True, slots=True)
class PackTerms:
    """What packs cost and give back in one month."""

    month: int
    windows: Windows
    discount: Fraction
    days: Calendar
    paid: PaidByMonth

    def charged_now(self, pack: Pack) -> bool:
        """Whether a pack was charged in this very month."""
        return pack.start >= self.windows.starts[0]

    def unit(self, line: LineKey, pack: Pack) -> tuple[Fraction, Fraction]:
        """List price and charge of one unit of a line: a pack, an excluded card-second, an unused card-day."""
        if line.kind == "pack":
            return pack.price, pack.price * (1 - self.discount)
        parts = pack.seconds if line.kind == "pack_exclusion" else -(-pack.seconds // DAY_SECONDS)
        share, discount = Fraction(1), self.discount
        if line.kind == "pack_refund" or not self.charged_now(pack):
            share, discount = self._paid_in_cash(line, pack)
        given_back = -pack.price / parts * share
        return given_back, given_back * (1 - discount)

    def _paid_in_cash(self, line: LineKey, pack: Pack) -> tuple[Fraction, Fraction]:
        """The cash share of a pack, and the discount it was sold at: what comes back is what was paid."""
        month = self.month if self.charged_now(pack) else self.days.month_of(pack.start)
        paid = self.paid.get((line._replace(kind="pack"), month))
        if paid is None:
            raise ValueError(f"no charge is known for the {line.plan} pack of {line.sku} begun at {pack.start} (R12)")
        return paid.cash_shares.get(paid.windows.index(pack.start), Fraction(1)), paid.discount


def pack_line(line: LineKey, starts: Mapping[Pack, int], terms: PackTerms) -> ExactLine:
    """One line of pack charges, exclusion credits or refunds; a pack counts in the window that it starts in."""
    units = {pack: terms.unit(line, pack) for pack in starts}
    lists = sums_by_key((line, units[pack][0] * quantity) for pack, quantity in starts.items())
    windows = sums_by_key((_window(line, pack, terms), units[pack][1] * quantity) for pack, quantity in starts.items())
    charge = sum(windows.values(), Fraction(0))
    return ExactLine(line, sum(starts.values()), 0, lists[line], (("contract", charge),), windows)


def _window(line: LineKey, pack: Pack, terms: PackTerms) -> int:
    if line.kind == "pack_refund" or not terms.charged_now(pack):
        return LATER
    return terms.windows.index(pack.start)


def cash_shares(
    charged: Mapping[int, int], excluded: Mapping[int, int], credited: Mapping[int, int]
) -> dict[int, Fraction]:
    """The share of a pack line in each window, net of its exclusion credits, that no credit paid.

    All three are minor units by window. Where nothing was left to pay no credit paid anything, so all is cash.
    """
    shares = {}
    for window, amount in charged.items():
        net = amount + excluded.get(window, 0)
        shares[window] = Fraction(net - credited.get(window, 0), net) if net > 0 else Fraction(1)
    return shares
