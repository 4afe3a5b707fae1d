"""One account's terms as the engine reads them: tiers, discount, caps, long-term rebate, credits.

``pricing.load`` makes these from YAML. Instants are whole seconds (UTC), amounts exact fractions of the currency.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from pricing.book import ALWAYS


@dataclass(frozen=True, slots=True)
class Band:
    """One band of a tier: up to and including ``up_to`` (None: without end), at a price or at a discount (R13).

    A band with neither leaves what it meets as it is. ``price`` is per card-hour.
    """

    up_to: Fraction | None
    price: Fraction | None = None
    discount: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Tier:
    """Bands over the card-hours or the list spend of an account's month on matching SKUs (R13)."""

    sku: str
    mode: Literal["graduated", "volume"]
    measure: Literal["card_hours", "spend"]
    bands: tuple[Band, ...]


@dataclass(frozen=True, slots=True)
class Cap:
    """At most ``amount``: per card held for the instance caps, in all for ``account_month`` (R14)."""

    per: Literal["instance_day", "instance_month", "account_month"]
    amount: Fraction


@dataclass(frozen=True, slots=True)
class LongTerm:
    """The rebate of a long rental (R21); ``plans`` limits its base, None is all plans."""

    min_days: int = 30
    rebate: Fraction = Fraction(15, 100)
    plans: frozenset[str] | None = None
    settle: Literal["voucher", "netted"] = "voucher"


@dataclass(frozen=True, slots=True)
class Credit:
    """A grant that pays for usage in ``[since, expires)`` on matching SKUs (R19); no patterns is everything.

    ``first_month`` is the earliest month that it may pay: months invoiced before it was recorded are closed to it.
    ``reductions`` are (month, amount): what is taken off the balance at the first second of that month, as far as it
    is there (a rebate voucher that turned out too large).
    """

    id: str
    kind: str
    amount: Fraction
    since: int
    expires: int
    skus: tuple[str, ...] = ()
    first_month: int = ALWAYS
    reductions: tuple[tuple[int, Fraction], ...] = ()


@dataclass(frozen=True, slots=True)
class Contract:
    """One version of an account's terms, in force from the first instant of a billing month."""

    account: str
    since: int = ALWAYS
    price_book: str = "standard"
    time_zone: str | None = None
    tiers: tuple[Tier, ...] = ()
    discount: Fraction = Fraction(0)
    caps: tuple[Cap, ...] = ()
    long_term: LongTerm | None = None
    credits: tuple[Credit, ...] = ()
