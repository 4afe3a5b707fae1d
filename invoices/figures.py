"""What has been invoiced of a month so far, and what a later look at it comes to, as figures that can be subtracted.

Corrections are differences of these (R22, R23): nothing is rounded twice, so original plus corrections is exact.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from pricing.bill import Bill
from pricing.exact import exact_text

ZERO = Decimal(0)
LineId = tuple[str, str, str, str, str]
"""Kind, SKU, plan, region and exact price of a line."""


@dataclass(slots=True)
class Figures:
    """The rounded figures of one account's month.

    ``lines`` are (list, charge); ``credits`` what each grant paid; ``taxes`` (cash, net, tax) by rate and whether it
    is included; ``vouchers`` what each rental earned. ``number`` and ``places`` say which invoice has which line.
    """

    lines: dict[LineId, tuple[Decimal, Decimal]] = field(default_factory=dict)
    credits: dict[str, Decimal] = field(default_factory=dict)
    taxes: dict[tuple[str, bool], tuple[Decimal, Decimal, Decimal]] = field(default_factory=dict)
    vouchers: dict[tuple[str, int], Decimal] = field(default_factory=dict)
    number: str | None = None
    places: dict[LineId, int] = field(default_factory=dict)

    def minus(self, other: "Figures") -> "Figures":
        """What this has more than the other, figures that agree left out."""
        return Figures(
            _less(self.lines, other.lines, 2), _less_one(self.credits, other.credits),
            _less(self.taxes, other.taxes, 3), _less_one(self.vouchers, other.vouchers), other.number, other.places,
        )  # fmt: skip

    def __bool__(self) -> bool:
        return bool(self.lines or self.credits or self.taxes or self.vouchers)


def figures_of(bill: Bill) -> Figures:
    """The figures of a bill."""
    return Figures(
        {line_id(line.key): (line.list, line.charge) for line in bill.lines},
        {use.id: use.applied for use in bill.credits if use.applied},
        {(exact_text(part.rate), part.included): (part.cash, part.net, part.tax) for part in bill.taxes},
        {(voucher.instance, voucher.rental): voucher.amount for voucher in bill.vouchers},
    )


def line_id(key: Any) -> LineId:
    """A line's identity across computations of its month."""
    return (key.kind, key.sku, key.plan, key.region, str(key.price))


def invoiced_figures(documents: Iterable[Mapping[str, Any]]) -> dict[str, Figures]:
    """By month name, what an account's standing invoices come to, corrections included; in order of issue."""
    found: dict[str, Figures] = defaultdict(Figures)
    for document in documents:
        own = found[document["month"]]
        own.number = document["number"]
        own.places = {tuple(line["key"]): place for place, line in enumerate(document["lines"], start=1)}
        for line in document["lines"]:
            _add(own.lines, tuple(line["key"]), Decimal(line["list"]), Decimal(line["charge"]))
        for credit in document["credits"]:
            own.credits[credit["id"]] = own.credits.get(credit["id"], ZERO) + Decimal(credit["applied"])
        for part in document["taxes"]:
            _add(own.taxes, (part["rate"], part["included"]), *(Decimal(part[n]) for n in ("cash", "net", "tax")))
        for voucher in document["vouchers"]:
            _add_voucher(own, voucher)
        _add_corrections(found, document)
    return found


def _add_corrections(found: dict[str, Figures], document: Mapping[str, Any]) -> None:
    for line in document["corrections"]:
        month = found[line["month"]]
        _add(month.lines, tuple(line["key"]), Decimal(line["list"]), Decimal(line["amount"]))
    for credit in document["credit_corrections"]:
        month = found[credit["month"]]
        month.credits[credit["id"]] = month.credits.get(credit["id"], ZERO) + Decimal(credit["applied"])
    for part in document["tax_corrections"]:
        amounts = (Decimal(part[name]) for name in ("cash", "net", "tax"))
        _add(found[part["month"]].taxes, (part["rate"], part["included"]), *amounts)
    for voucher in document["voucher_corrections"]:
        _add_voucher(found[voucher["month"]], voucher)


def _add_voucher(figures: Figures, voucher: Mapping[str, Any]) -> None:
    key = (voucher["instance"], voucher["rental_second"])
    figures.vouchers[key] = figures.vouchers.get(key, ZERO) + Decimal(voucher["amount"])


def _add(sums: dict[Any, Any], key: Hashable, *amounts: Decimal) -> None:
    known = sums.get(key, (ZERO,) * len(amounts))
    sums[key] = tuple(one + other for one, other in zip(known, amounts, strict=True))


def _less(now: Mapping[Any, Any], before: Mapping[Any, Any], width: int) -> dict[Any, Any]:
    nothing = (ZERO,) * width
    keys = sorted(now.keys() | before.keys())
    parts = {
        key: tuple(a - b for a, b in zip(now.get(key, nothing), before.get(key, nothing), strict=True)) for key in keys
    }
    return {key: part for key, part in parts.items() if any(part)}


def _less_one(now: Mapping[Any, Decimal], before: Mapping[Any, Decimal]) -> dict[Any, Decimal]:
    parts = {key: now.get(key, ZERO) - before.get(key, ZERO) for key in sorted(now.keys() | before.keys())}
    return {key: part for key, part in parts.items() if part}
