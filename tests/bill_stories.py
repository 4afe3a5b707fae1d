"""What the pricing tests are told in: stays of an instance in seconds from 1 March 2026, Shanghai, and their bills."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from typing import Any

from core.calendar import calendar, second_of
from pricing.bill import Bill, bill_account
from pricing.book import Plan, PriceBook, Sku, Tax
from pricing.contract import Contract, Credit
from pricing.terms import MonthTerms
from pricing.usage import Kind, MonthUsage, Pack, Rental, Usage

ZONE = "Asia/Shanghai"
DAY, HOUR = 86_400, 3_600


def at(text: str) -> int:
    """An instant written with its offset, or a date in Shanghai."""
    return second_of(datetime.fromisoformat(text if len(text) > 10 else f"{text}T00:00:00+08:00"))


MARCH = at("2026-03-01")
FAR = at("2027-01-01")
VAT = Tax(Fraction(6, 100), included=True)


def book(currency: str = "CNY", tax: Tax = VAT, plans: Sequence[Plan] = (), skus: Sequence[Sku] = ()) -> PriceBook:
    """A price book; rows of usage bring their prices, so it has none."""
    return PriceBook("standard", currency, ZONE, tax, {s.name: s for s in skus}, {p.name: p for p in plans}, ())


def credit(name: str, amount: str, since: str = "2026-01-01", expires: str = "2027-01-01", *skus: str) -> Credit:
    """A grant, its validity by dates in Shanghai."""
    return Credit(name, "voucher", Fraction(amount), at(since), at(expires), skus)


@dataclass(frozen=True)
class Stay:
    """Some cards of an instance in one class from one second to another."""

    start: int
    end: int
    cards: int = 1
    kind: Kind = "billable"
    instance: str = "i"
    price: str = "3.60"
    plan: str = "on_demand"
    sku: str = "gpu.test"
    project: str = "p"
    rental: int | None = None
    pack: Pack | None = None

    def rows(self, cuts: Iterable[int] = ()) -> list[Usage]:
        """The stay as rows that straddle neither a day nor a cut."""
        days, rows, second = calendar(ZONE), [], self.start
        while second < self.end:
            day, day_end = days.day_and_end(second)
            until = min([self.end, day_end, *(cut for cut in cuts if cut > second)])
            rows.append(self._row(self.kind, day, second, self.cards * (until - second)))
            second = until
        return rows

    def padding(self, card_seconds: int) -> Usage:
        """What rounding up adds at the last second of the stay."""
        return self._row("padding", calendar(ZONE).day_of(self.end - 1), self.end - 1, card_seconds)

    def charged_pack(self) -> Usage:
        """The charge of the stay's pack, for all its cards."""
        assert self.pack is not None
        return self._row("pack", calendar(ZONE).day_of(self.pack.start), self.pack.start, self.cards)

    def refund(self, card_days: int) -> Usage:
        """What stopping at the end of the stay leaves unused of its pack."""
        return self._row("pack_refund", calendar(ZONE).day_of(self.end - 1), self.end - 1, card_days)

    def _row(self, kind: Kind, day: int, second: int, quantity: int) -> Usage:
        rental = self.start if self.rental is None else self.rental
        names = (self.instance, rental, self.project, self.sku, self.plan, "cn")
        return Usage(kind, *names, day, second, Fraction(self.price), quantity, self.pack)


def months_of(rows: Iterable[Usage], stays: Iterable[Stay] = ()) -> list[MonthUsage]:
    """Rows by billing month, with the seconds that the stays held their instances by day."""
    days = calendar(ZONE)
    held: dict[tuple[str, int], set[tuple[int, int]]] = {}
    for stay in stays:
        for row in replace(stay, cards=1).rows():
            held.setdefault((row.instance, row.day), set()).add((row.at, row.at + row.quantity))
    by_month: dict[int, list[Usage]] = {}
    for row in rows:
        by_month.setdefault(days.month_of(row.at), []).append(row)
    return [
        MonthUsage(month, tuple(rows), {key: _union(spans) for key, spans in held.items() if _in(key[1], month)})
        for month, rows in by_month.items()
    ]


def _in(day: int, month: int) -> bool:
    return calendar(ZONE).month_of(calendar(ZONE).day_start(day)) == month


def _union(spans: set[tuple[int, int]]) -> int:
    total, reached = 0, -(2**62)
    for start, end in sorted(spans):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def rows_of(stays: Iterable[Stay], credits: Iterable[Credit] = ()) -> list[Usage]:
    """The time of some stays, cut where a credit begins or ends."""
    cuts = [instant for grant in credits for instant in (grant.since, grant.expires)]
    return [row for stay in stays for row in stay.rows(cuts)]


def bills(
    stays: Sequence[Stay],
    contract: Contract | None = None,
    *extra: Usage,
    rentals: Sequence[Rental] = (),
    terms: PriceBook | None = None,
    as_of: int = FAR,
) -> list[Bill]:
    """The bills of some stays (seconds since 1970) and further rows under one contract."""
    contract = contract or Contract("acct-1")
    months = months_of([*rows_of(stays, contract.credits), *extra], stays)
    in_force = MonthTerms(contract, terms or book())
    return bill_account("acct-1", months, lambda _: in_force, rentals, contract.credits, as_of)


def totals(bill: Bill) -> dict[str, str]:
    """The totals as they are printed."""
    printed: dict[str, str] = bill.to_json()["totals"]
    return printed


def lines(bill: Bill, *names: str) -> list[tuple[Any, ...]]:
    """Some fields of every line as they are printed."""
    return [tuple(line[name] for name in names) for line in bill.to_json()["lines"]]
