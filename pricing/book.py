"""A price book as the engine reads it: plans, prices, tax and fault classes, each a frozen value.

``pricing.load`` makes these from YAML. Instants are whole seconds (UTC), prices exact fractions of the currency.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

ALWAYS = -(2**62)
"""The ``from`` of what has always been in force."""

DEFAULT_XIDS: Mapping[int, str] = {
    **dict.fromkeys((13, 31, 43, 45, 106, 107), "user"),
    **dict.fromkeys((48, 62, 64, 74, 79, 92, 94, 95, 119, 120, 140, 143, 154), "platform"),
    63: "no_outage",
}
"""Whose fault a GPU XID is (R7): ``user`` is billed, ``platform`` is excluded, ``no_outage`` alone is no outage."""


@dataclass(frozen=True, slots=True)
class Tax:
    """A tax rate, and whether prices include it (R18)."""

    rate: Fraction
    included: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """How time is counted: in units with a minimum (R10), or as day or month packs (R12)."""

    name: str
    unit_s: int = 1
    minimum_s: int = 0
    gang: bool = False
    pack: Literal["day", "month"] | None = None
    renew: bool = True
    falls_back_to: str | None = None
    tax: Tax | None = None

    @property
    def rounds(self) -> bool:
        """Whether a session on this plan can have padding."""
        return self.pack is None and (self.unit_s > 1 or self.minimum_s > 0)


@dataclass(frozen=True, slots=True)
class Sku:
    """A card model, with its names by language and a tax of its own where it has one."""

    name: str
    names: Mapping[str, str] = field(default_factory=dict)
    tax: Tax | None = None


@dataclass(frozen=True, slots=True)
class Price:
    """One row of the price list: per card-hour, or per card and pack, from an instant on (R11)."""

    sku: str
    plan: str
    region: str | None
    amount: Fraction
    since: int


@dataclass(frozen=True, slots=True)
class PriceBook:
    """One version of a price book; ``since`` is the ``from`` of its plans, tax, XIDs and time-out."""

    id: str
    currency: str
    time_zone: str
    tax: Tax
    skus: Mapping[str, Sku]
    plans: Mapping[str, Plan]
    prices: tuple[Price, ...]
    since: int = ALWAYS
    heartbeat_timeout_s: int = 180
    xids: Mapping[int, str] = field(default_factory=lambda: DEFAULT_XIDS)
