"""From valid wire models to the engine's values, defaults filled in."""

from fractions import Fraction

from pricing.book import ALWAYS, DEFAULT_XIDS, Plan, Price, PriceBook, Sku, Tax
from pricing.contract import Band, Cap, Contract, Credit, LongTerm, Tier
from pricing.wire import (
    BandWire,
    BookWire,
    ContractWire,
    CreditWire,
    LongTermWire,
    PlanWire,
    PriceWire,
    TaxWire,
    TierWire,
    XidsWire,
)

DEFAULT_TAX = Tax(rate=Fraction(6, 100), included=True)
"""What a book that says nothing of tax means (R18)."""


def book_of(wire: BookWire) -> PriceBook:
    """The price book of a valid model; price rows in order of SKU, plan, region and instant, however written."""
    rows = [_price(row) for row in wire.prices]
    return PriceBook(
        id=wire.id,
        currency=wire.currency,
        time_zone=wire.time_zone,
        tax=_tax(wire.tax) or DEFAULT_TAX,
        skus={name: Sku(name, dict(sku.name), _tax(sku.tax)) for name, sku in wire.skus.items()},
        plans={name: _plan(name, plan) for name, plan in wire.plans.items()},
        prices=tuple(sorted(rows, key=lambda row: (row.sku, row.plan, row.region or "", row.since))),
        since=ALWAYS if wire.since is None else wire.since,
        heartbeat_timeout_s=wire.heartbeat_timeout_s,
        xids=DEFAULT_XIDS if wire.xids is None else _xids(wire.xids),
    )


def contract_of(wire: ContractWire) -> Contract:
    """The contract of a valid model; tiers, caps and credits in the order written."""
    return Contract(
        account=wire.account,
        since=ALWAYS if wire.since is None else wire.since,
        price_book=wire.price_book,
        time_zone=wire.time_zone,
        tiers=tuple(_tier(tier) for tier in wire.tiers),
        discount=wire.discount or Fraction(0),
        caps=tuple(Cap(cap.per, cap.amount) for cap in wire.caps),
        long_term=None if wire.long_term is None else _long_term(wire.long_term),
        credits=tuple(_credit(credit) for credit in wire.credits),
    )


def _tax(wire: TaxWire | None) -> Tax | None:
    return None if wire is None else Tax(wire.rate, wire.included)


def _plan(name: str, wire: PlanWire) -> Plan:
    return Plan(
        name=name,
        unit_s=wire.unit_s,
        minimum_s=wire.minimum_s,
        gang=wire.exclusions == "gang",
        pack=wire.pack,
        renew=wire.renew,
        falls_back_to=wire.falls_back_to,
        tax=_tax(wire.tax),
    )


def _price(wire: PriceWire) -> Price:
    amount = wire.per_card_hour if wire.per_card_pack is None else wire.per_card_pack
    assert amount is not None, "crosscheck refuses a row without an amount"
    return Price(wire.sku, wire.plan, wire.region, amount, wire.since)


def _xids(wire: XidsWire) -> dict[int, str]:
    classes = {"user": wire.user, "platform": wire.platform, "no_outage": wire.no_outage}
    return {code: kind for kind, codes in classes.items() for code in codes}


def _tier(wire: TierWire) -> Tier:
    return Tier(wire.sku, wire.mode, wire.measure, tuple(_band(band) for band in wire.bands))


def _band(wire: BandWire) -> Band:
    return Band(wire.up_to, wire.price, wire.discount)


def _long_term(wire: LongTermWire) -> LongTerm:
    return LongTerm(
        min_days=wire.min_days,
        rebate=LongTerm().rebate if wire.rebate is None else wire.rebate,
        plans=None if wire.plans is None else frozenset(wire.plans),
        settle=wire.settle,
    )


def _credit(wire: CreditWire) -> Credit:
    return Credit(wire.id, wire.kind, wire.amount, wire.since, wire.expires, tuple(wire.skus or ()))
