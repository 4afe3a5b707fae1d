"""Price books and contracts as they are written: models that mirror the documented format and forbid everything else.

Field names here are the format's; ``pricing.load`` turns a valid model into the engine's values.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator

from pricing.scalars import (
    Currency,
    Exact,
    Flag,
    Instant,
    Label,
    Name,
    Share,
    SkuName,
    SkuPattern,
    Zone,
    whole,
)

LONGEST_UNIT_S = 31 * 86_400


class Wire(BaseModel):
    """What all parts share: unknown keys are refused and nothing is coerced."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class TaxWire(Wire):
    """``tax`` of a book, a SKU or a plan (R18)."""

    rate: Share
    included: Flag = True


class SkuWire(Wire):
    """One entry of ``skus``: its names by language, a tax of its own."""

    name: dict[Name, Label] = {}
    tax: TaxWire | None = None


class PlanWire(Wire):
    """One entry of ``plans`` (R10, R12)."""

    unit_s: Annotated[int, PlainValidator(whole(1, LONGEST_UNIT_S))] = 1
    minimum_s: Annotated[int, PlainValidator(whole(0, LONGEST_UNIT_S))] = 0
    exclusions: Literal["card", "gang"] = "card"
    pack: Literal["day", "month"] | None = None
    renew: Flag = True
    falls_back_to: Name | None = None
    tax: TaxWire | None = None


class PriceWire(Wire):
    """One row of ``prices``: per card-hour or per card and pack (R11)."""

    sku: SkuName
    plan: Name
    region: Name | None = None
    per_card_hour: Exact | None = None
    per_card_pack: Exact | None = None
    since: Instant = Field(alias="from")


_Xid = Annotated[int, PlainValidator(whole(0, 65_535))]


class XidsWire(Wire):
    """``xids``: whose fault a code is; it replaces the whole default table (R7)."""

    user: list[_Xid] = []
    platform: list[_Xid] = []
    no_outage: list[_Xid] = []


class BookWire(Wire):
    """A price book as a whole."""

    id: Name = "standard"
    since: Instant | None = Field(default=None, alias="from")
    currency: Currency
    time_zone: Zone = "Asia/Shanghai"
    tax: TaxWire | None = None
    skus: dict[SkuName, SkuWire] = Field(min_length=1)
    heartbeat_timeout_s: Annotated[int, PlainValidator(whole(1, 86_400))] = 180
    xids: XidsWire | None = None
    plans: dict[Name, PlanWire] = Field(min_length=1)
    prices: list[PriceWire] = Field(min_length=1)


class BandWire(Wire):
    """One band of a tier (R13)."""

    up_to: Exact | None = None
    price: Exact | None = None
    discount: Share | None = None


class TierWire(Wire):
    """One entry of ``tiers`` (R13)."""

    sku: SkuPattern = "*"
    mode: Literal["graduated", "volume"] = "graduated"
    measure: Literal["card_hours", "spend"] = "card_hours"
    bands: list[BandWire] = Field(min_length=1)


class CapWire(Wire):
    """One entry of ``caps`` (R14)."""

    per: Literal["instance_day", "instance_month", "account_month"]
    amount: Exact


class LongTermWire(Wire):
    """``long_term``: the rebate of a long rental (R21)."""

    min_days: Annotated[int, PlainValidator(whole(1, 3650))] = 30
    rebate: Share | None = None
    plans: list[Name] | None = Field(default=None, min_length=1)
    settle: Literal["voucher", "netted"] = "voucher"


class CreditWire(Wire):
    """One entry of ``credits``: a grant with its validity and scope (R19)."""

    id: Name
    kind: Name
    amount: Exact
    since: Instant = Field(alias="from")
    expires: Instant
    skus: list[SkuPattern] | None = Field(default=None, min_length=1)


class ContractWire(Wire):
    """A contract as a whole; the account alone is enough."""

    account: Name
    since: Instant | None = Field(default=None, alias="from")
    price_book: Name = "standard"
    time_zone: Zone | None = None
    tiers: list[TierWire] = []
    discount: Share | None = None
    caps: list[CapWire] = []
    long_term: LongTermWire | None = None
    credits: list[CreditWire] = []


SECTIONS: dict[str, type[Wire]] = {
    "tax": TaxWire,
    "skus": SkuWire,
    "plans": PlanWire,
    "prices": PriceWire,
    "xids": XidsWire,
    "bands": BandWire,
    "tiers": TierWire,
    "caps": CapWire,
    "long_term": LongTermWire,
    "credits": CreditWire,
}
"""The model of what stands under a key, directly or as one of its entries."""


def keys_of(model: type[Wire]) -> list[str]:
    """The keys that a model knows, as they are written."""
    return [field.alias or name for name, field in model.model_fields.items()]
