"""Price books and contracts in a written canonical form, so that a version can be stored, hashed and pinned.

ASCII JSON with sorted keys and no spaces. Amounts are ``"n"`` or ``"n/d"`` in lowest terms, instants whole seconds
since 1970 (null: always), sets sorted. Every value is written, defaults too, so that a later default changes no pinned
version. The names in here are the form's own: renaming a field of the values must not change a hash. A new form gets a
new ``form`` number, and the old one stays readable.
"""

import json
from fractions import Fraction
from typing import Any

from pricing.book import ALWAYS, Plan, Price, PriceBook, Sku, Tax
from pricing.contract import Band, Cap, Contract, Credit, LongTerm, Tier

FORM = 1


def canonical(terms: PriceBook | Contract) -> bytes:
    """The canonical bytes of terms; equal terms give equal bytes."""
    body = _book_out(terms) if isinstance(terms, PriceBook) else _contract_out(terms)
    return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def from_canonical(data: bytes) -> PriceBook | Contract:
    """The terms of canonical bytes; anything that ``canonical`` would not have written raises ``ValueError``."""
    try:
        raw = json.loads(data)
        if raw["form"] != FORM:
            raise ValueError(f"canonical form {raw['form']!r} is not known")
        terms = _book_in(raw) if raw["kind"] == "price_book" else _contract_in(raw)
        same = canonical(terms) == data
    except (KeyError, TypeError, AttributeError, ZeroDivisionError, RecursionError) as error:
        raise ValueError(f"not canonical terms: {error!r}") from None
    if not same:
        raise ValueError("not in canonical form")
    return terms


def _book_out(book: PriceBook) -> dict[str, Any]:
    return {
        "form": FORM,
        "kind": "price_book",
        "id": book.id,
        "from": _since_out(book.since),
        "currency": book.currency,
        "time_zone": book.time_zone,
        "tax": _tax_out(book.tax),
        "skus": {key: {"sku": s.name, "name": dict(s.names), "tax": _tax_out(s.tax)} for key, s in book.skus.items()},
        "heartbeat_timeout_s": book.heartbeat_timeout_s,
        "xids": {str(code): kind for code, kind in book.xids.items()},
        "plans": {key: _plan_out(plan) for key, plan in book.plans.items()},
        "prices": [[p.sku, p.plan, p.region, str(p.amount), _since_out(p.since)] for p in book.prices],
    }


def _book_in(raw: dict[str, Any]) -> PriceBook:
    tax = _tax_in(raw["tax"])
    if tax is None:
        raise ValueError("a price book has a tax")
    return PriceBook(
        id=raw["id"],
        since=_since_in(raw["from"]),
        currency=raw["currency"],
        time_zone=raw["time_zone"],
        tax=tax,
        skus={key: Sku(s["sku"], s["name"], _tax_in(s["tax"])) for key, s in raw["skus"].items()},
        heartbeat_timeout_s=raw["heartbeat_timeout_s"],
        xids={int(code): kind for code, kind in raw["xids"].items()},
        plans={key: _plan_in(plan) for key, plan in raw["plans"].items()},
        prices=tuple(
            Price(sku, plan, region, Fraction(amount), _since_in(since))
            for sku, plan, region, amount, since in raw["prices"]
        ),
    )


def _plan_out(plan: Plan) -> dict[str, Any]:
    return {
        "plan": plan.name,
        "unit_s": plan.unit_s,
        "minimum_s": plan.minimum_s,
        "gang": plan.gang,
        "pack": plan.pack,
        "renew": plan.renew,
        "falls_back_to": plan.falls_back_to,
        "tax": _tax_out(plan.tax),
    }


def _plan_in(raw: dict[str, Any]) -> Plan:
    return Plan(
        name=raw["plan"],
        unit_s=raw["unit_s"],
        minimum_s=raw["minimum_s"],
        gang=raw["gang"],
        pack=raw["pack"],
        renew=raw["renew"],
        falls_back_to=raw["falls_back_to"],
        tax=_tax_in(raw["tax"]),
    )


def _contract_out(contract: Contract) -> dict[str, Any]:
    return {
        "form": FORM,
        "kind": "contract",
        "account": contract.account,
        "from": _since_out(contract.since),
        "price_book": contract.price_book,
        "time_zone": contract.time_zone,
        "tiers": [[t.sku, t.mode, t.measure, [_band_out(band) for band in t.bands]] for t in contract.tiers],
        "discount": str(contract.discount),
        "caps": [[cap.per, str(cap.amount)] for cap in contract.caps],
        "long_term": _long_term_out(contract.long_term),
        "credits": [_credit_out(credit) for credit in contract.credits],
    }


def _contract_in(raw: dict[str, Any]) -> Contract:
    return Contract(
        account=raw["account"],
        since=_since_in(raw["from"]),
        price_book=raw["price_book"],
        time_zone=raw["time_zone"],
        tiers=tuple(
            Tier(sku, mode, measure, tuple(Band(*map(_figure_in, band)) for band in bands))
            for sku, mode, measure, bands in raw["tiers"]
        ),
        discount=Fraction(raw["discount"]),
        caps=tuple(Cap(per, Fraction(amount)) for per, amount in raw["caps"]),
        long_term=_long_term_in(raw["long_term"]),
        credits=tuple(_credit_in(credit) for credit in raw["credits"]),
    )


def _band_out(band: Band) -> list[str | None]:
    return [None if figure is None else str(figure) for figure in (band.up_to, band.price, band.discount)]


def _figure_in(raw: str | None) -> Fraction | None:
    return None if raw is None else Fraction(raw)


def _long_term_out(terms: LongTerm | None) -> dict[str, Any] | None:
    if terms is None:
        return None
    plans = None if terms.plans is None else sorted(terms.plans)
    return {"min_days": terms.min_days, "rebate": str(terms.rebate), "plans": plans, "settle": terms.settle}


def _long_term_in(raw: dict[str, Any] | None) -> LongTerm | None:
    if raw is None:
        return None
    plans = None if raw["plans"] is None else frozenset(raw["plans"])
    return LongTerm(raw["min_days"], Fraction(raw["rebate"]), plans, raw["settle"])


def _credit_out(credit: Credit) -> dict[str, Any]:
    return {
        "id": credit.id,
        "kind": credit.kind,
        "amount": str(credit.amount),
        "from": _since_out(credit.since),
        "expires": credit.expires,
        "skus": list(credit.skus),
        "first_month": _since_out(credit.first_month),
    }


def _credit_in(raw: dict[str, Any]) -> Credit:
    return Credit(
        id=raw["id"],
        kind=raw["kind"],
        amount=Fraction(raw["amount"]),
        since=_since_in(raw["from"]),
        expires=raw["expires"],
        skus=tuple(raw["skus"]),
        first_month=_since_in(raw["first_month"]),
    )


def _tax_out(tax: Tax | None) -> dict[str, Any] | None:
    return None if tax is None else {"rate": str(tax.rate), "included": tax.included}


def _tax_in(raw: dict[str, Any] | None) -> Tax | None:
    return None if raw is None else Tax(Fraction(raw["rate"]), raw["included"])


def _since_out(second: int) -> int | None:
    return None if second == ALWAYS else second


def _since_in(raw: int | None) -> int:
    return ALWAYS if raw is None else raw
