"""Caps: at most so much per instance and day, per instance and month, per account and month (R14).

An instance cap is an amount per card, times the cards that the instance held on average while it was allocated
(card-seconds / seconds). What a cap takes off comes from everything under it in proportion, so a cap is a factor.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from pricing.contract import Cap
from pricing.exact import exact_sum, sums_by_key
from pricing.quantities import Cell

InstanceDay = tuple[str, int]
Charges = Mapping[Cell, Fraction]
WHOLE = Fraction(1)


@dataclass(frozen=True, slots=True)
class Held:
    """Allocated card-seconds, and the seconds in which at least one card was held, by instance and day."""

    card_seconds: Mapping[InstanceDay, int]
    seconds: Mapping[InstanceDay, int]

    def average_cards(self, days: Iterable[InstanceDay]) -> Fraction:
        """Cards held on average over the allocated time of some days of an instance."""
        known = [key for key in days if self.card_seconds.get(key)]
        seconds = sum(self.seconds.get(key, 0) for key in known)
        if not seconds:
            raise ValueError(f"an instance cap needs held_seconds of {sorted(known)} (R14)")
        return Fraction(sum(self.card_seconds[key] for key in known), seconds)


@dataclass(frozen=True, slots=True)
class CapFactors:
    """The share of a charge that the caps leave; what is not named is left whole."""

    days: Mapping[InstanceDay, Fraction] = field(default_factory=dict)
    instances: Mapping[str, Fraction] = field(default_factory=dict)
    account: Fraction = WHOLE

    def of_instance(self, amount: Fraction, instance: str, day: int) -> Fraction:
        """What the day's and then the month's cap of an instance leave of an amount; the account's comes on top."""
        by_day, by_month = self.days.get((instance, day)), self.instances.get(instance)
        if by_day is not None:
            amount = amount * by_day
        return amount if by_month is None else amount * by_month


def cap_factors(caps: Sequence[Cap], charges: Charges, held: Held) -> CapFactors:
    """The factors of a month: days first, then instance months, then the account, each on what the one before left.

    ``charges`` are exact, before any cap. Of several caps of one kind the lowest holds.
    """
    lowest: dict[str, Fraction] = {}
    for cap in caps:
        lowest[cap.per] = min(cap.amount, lowest.get(cap.per, cap.amount))
    days = _day_factors(lowest["instance_day"], charges, held) if "instance_day" in lowest else {}
    factors = CapFactors(days)
    if "instance_month" in lowest:
        factors = CapFactors(days, _month_factors(lowest["instance_month"], charges, factors, held))
    if "account_month" in lowest:
        total = exact_sum(amount for _, amount in instance_capped(charges, factors))
        account = _factor(lowest["account_month"], total)
        factors = CapFactors(days, factors.instances, WHOLE if account is None else account)
    return factors


def instance_capped(charges: Charges, factors: CapFactors) -> Iterator[tuple[Cell, Fraction]]:
    """The charges as the caps of their instances leave them."""
    if not factors.days and not factors.instances:
        return iter(charges.items())
    return ((cell, factors.of_instance(amount, cell.instance, cell.day)) for cell, amount in charges.items())


def _day_factors(per_card: Fraction, charges: Charges, held: Held) -> dict[InstanceDay, Fraction]:
    spent = sums_by_key(((cell.instance, cell.day), amount) for cell, amount in charges.items())
    factors = {key: _factor(per_card * held.average_cards([key]), amount) for key, amount in spent.items()}
    return {key: factor for key, factor in factors.items() if factor is not None}


def _month_factors(per_card: Fraction, charges: Charges, factors: CapFactors, held: Held) -> dict[str, Fraction]:
    spent = sums_by_key((cell.instance, amount) for cell, amount in instance_capped(charges, factors))
    days: dict[str, list[InstanceDay]] = defaultdict(list)
    for instance, day in held.card_seconds:
        days[instance].append((instance, day))
    by_instance = {key: _factor(per_card * held.average_cards(days[key]), amount) for key, amount in spent.items()}
    return {key: factor for key, factor in by_instance.items() if factor is not None}


def _factor(allowed: Fraction, spent: Fraction) -> Fraction | None:
    """What the cap leaves of each unit spent; None where it takes nothing off."""
    return allowed / spent if spent > allowed else None
