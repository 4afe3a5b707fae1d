"""The rebate of a long rental: netted at once, or earned as a voucher (R21).

A rental qualifies once its wall-clock time reaches the days that the contract asks for. Excluded time does not break
it. A rebate is taken on exact charges, before lines are rounded and before credits.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

from core.calendar import Calendar
from core.money import round_half_up
from pricing.contract import LongTerm
from pricing.usage import Rental

DAY_SECONDS = 86_400

RentalKey = tuple[str, int]
"""The instance, and the first second of the session."""

ChargesByRental = Mapping[RentalKey, Mapping[str, Fraction]]
"""Exact charges of each rental by plan."""


@dataclass(frozen=True, slots=True)
class Voucher:
    """A rebate that becomes a grant when the bill is issued: its amount, and the exact charges it was taken on."""

    instance: str
    rental: int
    amount: Decimal
    earned_at: int
    base: Fraction


@dataclass(frozen=True, slots=True)
class Netted:
    """The share of a charge that a rebate netted at once leaves, and the rentals that it applies to."""

    left: Fraction = Fraction(1)
    rentals: frozenset[RentalKey] = frozenset()
    plans: frozenset[str] | None = None

    def of(self, amount: Fraction, instance: str, rental: int, plan: str) -> Fraction:
        """What is left of an amount charged for a rental on a plan."""
        if (instance, rental) in self.rentals and (self.plans is None or plan in self.plans):
            return amount * self.left
        return amount


@dataclass(slots=True)
class Unrewarded:
    """Exact charges of each rental since its start that no rebate was given on yet."""

    charges: dict[RentalKey, dict[str, Fraction]] = field(default_factory=dict)

    def add(self, month: ChargesByRental) -> None:
        """The charges of one more month."""
        for key, plans in month.items():
            kept = self.charges.setdefault(key, {})
            for plan, amount in plans.items():
                kept[plan] = kept.get(plan, Fraction(0)) + amount


@dataclass(frozen=True, slots=True)
class Rebate:
    """The rebate terms of one month, and the month in which each long enough rental completed its days."""

    terms: LongTerm
    month: int
    month_end: int
    completed: Mapping[RentalKey, int]

    def netted(self) -> Netted:
        """What is netted on the charges of this month: those of rentals that qualify in it or did before."""
        if self.terms.settle != "netted":
            return Netted()
        return Netted(1 - self.terms.rebate, frozenset(self._qualified()), self.terms.plans)

    def settle(self, charged: ChargesByRental, unrewarded: Unrewarded, digits: int) -> tuple[Voucher, ...]:
        """The vouchers of this month: a rental's first for all since its start, later ones for the month alone.

        ``charged`` are the charges of this month, which ``unrewarded`` already holds; what is rewarded, by voucher
        or netted, leaves it.
        """
        vouchers = []
        for key in self._qualified():
            pending = unrewarded.charges.pop(key, {})
            if self.terms.settle == "voucher":
                first = self.completed[key] == self.month
                vouchers.append(self._voucher(key, pending if first else charged.get(key, {}), first, digits))
        earned = [voucher for voucher in vouchers if voucher.amount]
        return tuple(sorted(earned, key=lambda voucher: (voucher.earned_at, voucher.instance, voucher.rental)))

    def _qualified(self) -> list[RentalKey]:
        return [key for key, month in self.completed.items() if month <= self.month]

    def _voucher(self, key: RentalKey, charged: Mapping[str, Fraction], first: bool, digits: int) -> Voucher:
        plans = self.terms.plans
        base = sum((amount for plan, amount in charged.items() if plans is None or plan in plans), Fraction(0))
        earned_at = key[1] + self.terms.min_days * DAY_SECONDS if first else self.month_end
        return Voucher(*key, round_half_up(base * self.terms.rebate, digits), earned_at, base)


def rebate_of(terms: LongTerm, rentals: Iterable[Rental], month: int, days: Calendar, as_of: int) -> Rebate:
    """The rebate of a month: a rental completes its days by the second before ``start + min_days``, if by as-of."""
    needed = terms.min_days * DAY_SECONDS
    completed = {
        (rental.instance, rental.start): days.month_of(rental.start + max(needed, 1) - 1)
        for rental in rentals
        if rental.end - rental.start >= needed and rental.start + needed <= as_of
    }
    return Rebate(terms, month, days.month_start(month + 1), completed)
