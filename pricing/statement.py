"""A bill as a value, and as the JSON object that others read.

Amounts are rounded to the currency's minor unit, instants whole seconds (UTC), months month numbers.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from core.calendar import calendar, instant_of, month_name
from core.money import from_minor, minor_digits, round_half_up
from pricing.charges import Rates
from pricing.credits import CreditUse
from pricing.exact import exact_text
from pricing.lines import Line
from pricing.rebate import Voucher
from pricing.tax import TaxPart


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums of a bill: charges = list - discounts, net + tax = due."""

    list: Decimal
    discounts: Decimal
    charges: Decimal
    credits: Decimal
    due: Decimal
    net: Decimal
    tax: Decimal


def totals_of(lines: Iterable[Line], taxes: Iterable[TaxPart], digits: int) -> Totals:
    """The totals that lines and taxes add up to; tax that prices do not include is added to what is due (R18)."""
    zero = from_minor(0, digits)
    lines, taxes = tuple(lines), tuple(taxes)
    listed = sum((line.list for line in lines), zero)
    charges = sum((line.charge for line in lines), zero)
    credits = charges - sum((line.cash for line in lines), zero)
    added = sum((part.tax for part in taxes if not part.included), zero)
    return Totals(
        list=listed,
        discounts=listed - charges,
        charges=charges,
        credits=credits,
        due=charges - credits + added,
        net=sum((part.net for part in taxes), zero),
        tax=sum((part.tax for part in taxes), zero),
    )


@dataclass(frozen=True, slots=True)
class Bill:
    """What one account owes for one billing month, and why.

    ``card_seconds`` are by class, with ``allocated`` (their sum without padding) first. ``rates`` price any row of
    the month exactly, for views that split the lines.
    """

    account: str
    month: int
    currency: str
    time_zone: str
    card_seconds: Mapping[str, int]
    totals: Totals
    lines: tuple[Line, ...]
    credits: tuple[CreditUse, ...]
    vouchers: tuple[Voucher, ...]
    taxes: tuple[TaxPart, ...]
    rates: Rates = field(repr=False, compare=False)

    def to_json(self) -> dict[str, Any]:
        """The bill as ``gpu-billing rate`` prints it: amounts are strings, instants in the account's zone."""
        digits = minor_digits(self.currency)
        return {
            "account": self.account,
            "month": month_name(self.month),
            "currency": self.currency,
            "card_seconds": dict(self.card_seconds),
            "totals": {name: f"{getattr(self.totals, name):f}" for name in Totals.__slots__},
            "lines": [line_json(line, digits) for line in self.lines],
            "credits": [_credit_json(use) for use in self.credits],
            "vouchers": [_voucher_json(voucher, self.time_zone, digits) for voucher in self.vouchers],
            "taxes": [_tax_json(part) for part in self.taxes],
        }


def line_json(line: Line, digits: int) -> dict[str, Any]:
    """One line as JSON; ``price`` is exact, per card-hour or per pack."""
    key = line.key
    return {
        "kind": key.kind,
        "sku": key.sku,
        "plan": key.plan,
        "region": key.region,
        "price": exact_text(key.price, digits),
        "unit": QUANTITY_UNITS[key.kind],
        "quantity": line.quantity,
        "padding": line.padding,
        "list": f"{line.list:f}",
        "discounts": {name: f"{amount:f}" for name, amount in line.discounts.items()},
        "charge": f"{line.charge:f}",
        "credits": {credit: f"{amount:f}" for credit, amount in line.credits.items()},
        "tax": {"rate": exact_text(line.tax.rate), "included": line.tax.included},
    }


QUANTITY_UNITS: Mapping[str, str] = {
    "usage": "card-second",
    "pack": "pack",
    "pack_exclusion": "card-second",
    "pack_refund": "card-day",
}


def _credit_json(use: CreditUse) -> dict[str, str]:
    amounts = {"applied": use.applied, "left": use.left, "lapsed": use.lapsed}
    return {"id": use.id, "kind": use.kind, **{name: f"{amount:f}" for name, amount in amounts.items()}}


def _voucher_json(voucher: Voucher, time_zone: str, digits: int) -> dict[str, str]:
    zone = calendar(time_zone).zone
    return {
        "instance": voucher.instance,
        "rental": instant_of(voucher.rental, zone).isoformat(),
        "amount": f"{voucher.amount:f}",
        "earned_at": instant_of(voucher.earned_at, zone).isoformat(),
        # Shown to the minor unit only: under caps the exact figure can be a fraction of any length.
        "base": f"{round_half_up(voucher.base, digits):f}",
    }


def _tax_json(part: TaxPart) -> dict[str, Any]:
    amounts = {"cash": part.cash, "net": part.net, "tax": part.tax}
    return {
        "rate": exact_text(part.rate),
        "included": part.included,
        **{name: f"{amount:f}" for name, amount in amounts.items()},
    }
