"""An invoice as a document: the bill of its month, and what earlier months come to now minus what was invoiced of them.

Pure. Amounts are strings at the currency's digits; the document's canonical bytes are what is issued and hashed.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from core.calendar import Calendar, instant_of, month_name
from core.money import from_minor, minor_digits
from invoices.figures import Figures, figures_of, line_id
from pricing.bill import Bill
from pricing.statement import Totals

RULES_VERSION = 1
"""Which reading of the rules an invoice was computed by."""


def nothing(currency: str) -> Decimal:
    """Zero with the digits of a currency."""
    return from_minor(0, minor_digits(currency))


@dataclass(frozen=True, slots=True)
class Correction:
    """An earlier month of the account: its name, and what it has more now than was invoiced."""

    month: str
    change: Figures


@dataclass(slots=True)
class Composed:
    """An account's invoice before it has a number: the bill (None: corrections only) and its corrections."""

    account: str
    month: int
    currency: str
    bill: Bill | None
    corrections: list[Correction]
    carried: Decimal
    totals: dict[str, Decimal] = field(default_factory=dict)

    def __post_init__(self) -> None:
        zero = nothing(self.currency)
        own = self.bill.totals if self.bill else None
        sums = {name: getattr(own, name) if own else zero for name in Totals.__slots__}
        for correction in self.corrections:
            change = correction.change
            for listed, charged in change.lines.values():
                sums["list"] += listed
                sums["charges"] += charged
            sums["credits"] += sum(change.credits.values(), zero)
            for _, net, tax in change.taxes.values():
                sums["net"] += net
                sums["tax"] += tax
        sums["discounts"] = sums["list"] - sums["charges"]
        sums["due"] = sums["net"] + sums["tax"]
        self.totals = sums

    @property
    def empty(self) -> bool:
        """Whether there is nothing to bill."""
        return self.bill is None and not self.corrections

    @property
    def balance(self) -> Decimal:
        """What is due with what earlier invoices carried forward; negative: carried on."""
        return self.totals["due"] + self.carried

    @property
    def payable(self) -> Decimal:
        """What is to be paid, never negative."""
        return max(self.balance, nothing(self.currency))


def compose(
    account: str, month: int, currency: str, bills: Mapping[str, Bill], invoiced: Mapping[str, Figures],
    closed: frozenset[str], carried: Decimal,
) -> Composed:  # fmt: skip
    """The invoice of a month from the account's bills by month and what was invoiced so far.

    ``closed`` are the names of the closed months that may be corrected; what is found in one of them that the account
    had no invoice for is a correction with nothing to name.
    """
    corrections = []
    for name in sorted((closed | invoiced.keys()) - {month_name(month)}):
        now = figures_of(bills[name]) if name in bills else Figures()
        if change := now.minus(invoiced.get(name, Figures())):
            corrections.append(Correction(name, change))
    return Composed(account, month, currency, bills.get(month_name(month)), corrections, carried)


def document(
    composed: Composed, number: str, issued_at: int, calendar: Calendar, pins: Mapping[str, Any]
) -> dict[str, Any]:
    """The invoice as others read it (``gpu-billing invoices``)."""
    bill = composed.bill.to_json() if composed.bill else {}
    lines = bill.get("lines", [])
    for told, line in zip(lines, composed.bill.lines if composed.bill else (), strict=True):
        told["key"] = list(line_id(line.key))
    vouchers = bill.get("vouchers", [])
    for told, voucher in zip(vouchers, composed.bill.vouchers if composed.bill else (), strict=True):
        told["rental_second"] = voucher.rental
    carried_on = min(composed.balance, nothing(composed.currency))
    return {
        "number": number,
        "account": composed.account,
        "month": month_name(composed.month),
        "issued_at": instant_of(issued_at, calendar.zone).isoformat(),
        "currency": composed.currency,
        "payable": f"{composed.payable:f}",
        "carried_forward": {"from_before": f"{composed.carried:f}", "to_next": f"{carried_on:f}"},
        "totals": {name: f"{amount:f}" for name, amount in composed.totals.items()},
        "card_seconds": bill.get("card_seconds", {}),
        "lines": lines,
        "corrections": [line for each in composed.corrections for line in _line_corrections(each)],
        "credits": bill.get("credits", []),
        "credit_corrections": [
            {"month": each.month, "id": id_, "applied": f"{amount:f}"}
            for each in composed.corrections for id_, amount in each.change.credits.items()
        ],
        "vouchers": vouchers,
        "voucher_corrections": [
            {"month": each.month, "instance": key[0], "rental_second": key[1], "amount": f"{amount:f}"}
            for each in composed.corrections for key, amount in each.change.vouchers.items()
        ],
        "taxes": bill.get("taxes", []),
        "tax_corrections": [
            {"month": each.month, "rate": key[0], "included": key[1],
             **{name: f"{amount:f}" for name, amount in zip(("cash", "net", "tax"), amounts, strict=True)}}
            for each in composed.corrections for key, amounts in each.change.taxes.items()
        ],
        "pins": dict(pins),
    }  # fmt: skip


def _line_corrections(correction: Correction) -> list[dict[str, Any]]:
    change = correction.change
    return [
        {
            "corrects": {"number": change.number, "line": change.places.get(key)}, "month": correction.month,
            "key": list(key), "kind": key[0], "sku": key[1], "plan": key[2], "region": key[3], "price": key[4],
            "list": f"{listed:f}", "amount": f"{charged:f}",
        }
        for key, (listed, charged) in change.lines.items()
    ]  # fmt: skip


def canonical_bytes(value: Mapping[str, Any]) -> bytes:
    """The bytes that are issued: JSON with sorted keys, no spaces, UTF-8."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
