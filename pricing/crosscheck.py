"""What one value of a price book or contract must be to another: names that exist, orders, and nothing twice.

The checks of a file read its raw mapping and look at those entries that are sound by themselves, so that one bad row
hides no other fault. ``check_contract`` compares a contract with the price book that it is used with.
"""

from collections.abc import Collection, Iterator
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from pydantic import ValidationError

from core.calendar import calendar
from core.money import minor_digits
from pricing.book import ALWAYS, PriceBook
from pricing.contract import Contract
from pricing.scalars import shown
from pricing.wire import BookWire, CapWire, CreditWire, PlanWire, PriceWire, TierWire, Wire, XidsWire
from pricing.yaml_lines import Problem

_COMPARED = 500
_Part = TypeVar("_Part", bound=Wire)


def did_you_mean(word: object, known: Collection[str]) -> str:
    """The end of a message that names what a near miss was perhaps meant to be, or nothing."""
    near = get_close_matches(str(word)[:60], list(known)[:_COMPARED], n=1)
    return f", did you mean {near[0]}?" if near else ""


def book_problems(raw: dict[str, Any], wire: BookWire | None) -> Iterator[Problem]:
    """What is wrong between the parts of a price book; ``wire`` is its model where it is valid as such."""
    plans = _sound(PlanWire, raw.get("plans")) if wire is None else wire.plans
    for plan, plan_wire in plans.items():
        yield from _plan_problems(plan, plan_wire, plans, _names(raw.get("plans")))
    for xids in _sound(XidsWire, [raw.get("xids", {})]).values():
        yield from _xid_problems(xids)
    rows = _sound(PriceWire, raw.get("prices")) if wire is None else dict(enumerate(wire.prices))
    yield from _price_problems(raw, rows, plans)
    yield from _unpriced(raw.get("skus"), raw.get("prices"))


def _unpriced(skus: Any, rows: Any) -> Iterator[Problem]:
    if not rows or not isinstance(rows, list):
        return
    priced = [row.get("sku") for row in rows if isinstance(row, dict)]
    known = {sku for sku in priced if isinstance(sku, str)}
    for sku in _names(skus):
        if sku not in known:
            yield Problem(("skus", sku), "no row of prices names this SKU")


def _plan_problems(plan: Any, wire: PlanWire, plans: dict[Any, PlanWire], names: Collection[str]) -> Iterator[Problem]:
    path = ("plans", plan)
    if wire.pack is None:
        for key in sorted(wire.model_fields_set & {"renew", "falls_back_to"}):
            yield Problem((*path, key), "only a plan with pack has it")
        return
    for key in sorted(wire.model_fields_set & {"unit_s", "minimum_s"}):
        if getattr(wire, key) != PlanWire.model_fields[key].default:
            yield Problem((*path, key), "a pack has no unit and no minimum")
    target = wire.falls_back_to
    if target is None:
        if not wire.renew:
            yield Problem((*path, "falls_back_to"), "is missing; a pack that does not renew names what comes after it")
    elif target not in names:
        yield Problem((*path, "falls_back_to"), f"no plan {shown(target)}{did_you_mean(target, names)}")
    elif target in plans and plans[target].pack is not None:
        yield Problem((*path, "falls_back_to"), f"{shown(target)} is itself a pack")


def _price_problems(raw: dict[str, Any], rows: dict[Any, PriceWire], plans: dict[Any, PlanWire]) -> Iterator[Problem]:
    skus, names = _names(raw.get("skus")), _names(raw.get("plans"))
    first: dict[tuple[str, str, str | None, int], int] = {}
    for i, row in rows.items():
        path = ("prices", i)
        if row.sku not in skus:
            yield Problem((*path, "sku"), f"no SKU {shown(row.sku)}{did_you_mean(row.sku, skus)}")
        if row.plan not in names:
            yield Problem((*path, "plan"), f"no plan {shown(row.plan)}{did_you_mean(row.plan, names)}")
        yield from _amount_problems(path, row, plans.get(row.plan))
        earlier = first.setdefault((row.sku, row.plan, row.region, row.since), i)
        if earlier != i:
            yield Problem(path, f"same sku, plan, region and from as prices[{earlier}]; a second has one price")


def _amount_problems(path: tuple[str, Any], row: PriceWire, plan: PlanWire | None) -> Iterator[Problem]:
    given = row.model_fields_set & {"per_card_hour", "per_card_pack"}
    if len(given) != 1:
        yield Problem(path, "needs exactly one of per_card_hour and per_card_pack")
    elif plan is not None and plan.pack is not None and "per_card_hour" in given:
        yield Problem((*path, "per_card_hour"), f"plan {shown(row.plan)} is a pack and needs per_card_pack")
    elif plan is not None and plan.pack is None and "per_card_pack" in given:
        yield Problem((*path, "per_card_pack"), f"plan {shown(row.plan)} is no pack and needs per_card_hour")


def _xid_problems(xids: XidsWire) -> Iterator[Problem]:
    owner: dict[int, str] = {}
    for kind in XidsWire.model_fields:
        for i, code in enumerate(getattr(xids, kind)):
            if code in owner:
                yield Problem(("xids", kind, i), f"{code} is already listed under {owner[code]}")
            owner.setdefault(code, kind)


def contract_problems(raw: dict[str, Any]) -> Iterator[Problem]:
    """What is wrong between the parts of a contract."""
    for i, tier in _sound(TierWire, raw.get("tiers")).items():
        yield from _band_problems(i, tier)
    kinds: dict[str, int] = {}
    for i, cap in _sound(CapWire, raw.get("caps")).items():
        if kinds.setdefault(cap.per, i) != i:
            yield Problem(("caps", i, "per"), f"caps[{kinds[cap.per]}] is already per {cap.per}")
    ids: dict[str, int] = {}
    for i, credit in _sound(CreditWire, raw.get("credits")).items():
        if ids.setdefault(credit.id, i) != i:
            yield Problem(("credits", i, "id"), f"credits[{ids[credit.id]}] is already called {shown(credit.id)}")
        yield from _credit_problems(i, credit)


def _band_problems(tier: Any, wire: TierWire) -> Iterator[Problem]:
    reached = None
    for i, band in enumerate(wire.bands):
        path = ("tiers", tier, "bands", i)
        if band.price is not None and band.discount is not None:
            yield Problem(path, "has a price and a discount; give one")
        if band.up_to is None:
            if i < len(wire.bands) - 1:
                yield Problem(path, "has no up_to; only the last band may go without")
        elif band.up_to <= (reached or 0):
            above = "0" if reached is None else f"{shown(str(reached))} of the band before"
            yield Problem((*path, "up_to"), f"must be above {above}")
        reached = reached if band.up_to is None else band.up_to


def _credit_problems(i: Any, wire: CreditWire) -> Iterator[Problem]:
    if wire.amount == 0:
        yield Problem(("credits", i, "amount"), "must be above 0")
    if wire.expires <= wire.since:
        yield Problem(("credits", i, "expires"), "must be later than from")
    for n, sku in enumerate(wire.skus or []):
        if sku in (wire.skus or [])[:n]:
            yield Problem(("credits", i, "skus", n), f"{shown(sku)} stands twice")


def _sound(model: type[_Part], raw: Any) -> dict[Any, _Part]:
    """The entries of a raw list or mapping that are valid by themselves, by index or name."""
    entries = raw.items() if isinstance(raw, dict) else enumerate(raw) if isinstance(raw, list) else ()
    sound = {}
    for key, value in entries:
        try:
            sound[key] = model.model_validate(value)
        except ValidationError:
            continue
    return sound


def _names(raw: Any) -> Collection[str]:
    return raw.keys() if isinstance(raw, dict) else ()


def check_contract(contract: Contract, book: PriceBook) -> list[str]:
    """What a contract says that its price book does not bear out, as ``path: message (rule)``; empty when all is well.

    ``from`` is judged in the contract's time zone, or else in the book's (R2).
    """
    problems = []
    if contract.price_book != book.id:
        problems.append(f"price_book: names {shown(contract.price_book)}, but the price book is {shown(book.id)}")
    if contract.since != ALWAYS:
        days = calendar(contract.time_zone or book.time_zone)
        if days.month_start(days.month_of(contract.since)) != contract.since:
            problems.append(f"from: is not the first instant of a month in {days.zone.key} (R2)")
    problems += _pattern_problems(contract, book)
    for plan in sorted((contract.long_term and contract.long_term.plans) or ()):
        if plan not in book.plans:
            problems.append(f"long_term.plans: no plan {shown(plan)}{did_you_mean(plan, book.plans.keys())} (R21)")
    digits = minor_digits(book.currency)
    for i, credit in enumerate(contract.credits):
        if (credit.amount * 10**digits).denominator != 1:
            problems.append(f"credits[{i}].amount: {book.currency} has {digits} digits after the point (R16)")
    return problems


def _pattern_problems(contract: Contract, book: PriceBook) -> list[str]:
    asked = [(f"tiers[{i}].sku", tier.sku, "R13") for i, tier in enumerate(contract.tiers)]
    for i, credit in enumerate(contract.credits):
        asked += [(f"credits[{i}].skus[{n}]", sku, "R19") for n, sku in enumerate(credit.skus)]
    return [
        f"{path}: {shown(pattern)} matches no SKU of the price book{did_you_mean(pattern, book.skus.keys())} ({rule})"
        for path, pattern, rule in asked
        if not any(fnmatchcase(sku, pattern) for sku in book.skus)
    ]
