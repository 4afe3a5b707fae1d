"""From which instant on new terms rate an account's time otherwise than those before them (R11, settled: Terms).

What was said of earlier seconds stays: every look-up of the timeline is made at or before the second that it decides,
so a timeline under either terms is the same up to the first instant at which any look-up answers differently.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from pricing.book import Plan, PriceBook
from pricing.terms import NEVER, AccountTerms, Terms

BEGINNING = 0
"""Before every event."""

Key = tuple[str, str, str]
"""A SKU, a plan and a region."""


def first_change(old: AccountTerms, new: AccountTerms) -> int:
    """The first second that may be rated differently, or ``NEVER``; another time zone changes all days."""
    if old.calendar.zone.key != new.calendar.zone.key:
        return BEGINNING
    keys = _priced(old.terms) | _priced(new.terms)
    for cut in sorted({*old.cuts(), *new.cuts()}):
        second = max(cut, old.calendar_floor())
        if _counting(old.book(second)) != _counting(new.book(second)) or any(
            old.schedule(*key).at(second) != new.schedule(*key).at(second) for key in keys
        ):
            return max(cut, BEGINNING)
    return NEVER


def currencies(old: AccountTerms, new: AccountTerms) -> tuple[str, str] | None:
    """The first two currencies that differ at one instant, or None."""
    for cut in sorted({*old.cuts(), *new.cuts()}):
        second = max(cut, old.calendar_floor())
        before, after = old.book(second), new.book(second)
        if before and after and before.currency != after.currency:
            return before.currency, after.currency
    return None


class Changes:
    """First changes by account; accounts whose contracts name the same books at the same instants share one answer."""

    def __init__(self, old: Terms, new: Terms) -> None:
        self._old, self._new = old, new
        self._known: dict[object, int] = {}

    def since(self, account: str) -> int:
        """The first second at which an account's time may be rated differently, or ``NEVER``."""
        key = (_outline(self._old, account), _outline(self._new, account))
        if key not in self._known:
            self._known[key] = first_change(self._old.account(account), self._new.account(account))
        return self._known[key]


def _outline(terms: Terms, account: str) -> tuple[object, ...]:
    own = (version for version in terms.versions if getattr(version.terms, "account", None) == account)
    named = tuple((v.number, v.correction, v.terms.since, getattr(v.terms, "price_book", "")) for v in own)
    return (terms.account(account).calendar.zone.key, named if terms.pins else tuple(each[2:] for each in named))


def _counting(book: PriceBook | None) -> tuple[Mapping[str, Plan], int, Mapping[int, str]] | None:
    """What of a price book decides how time is counted."""
    if book is None:
        return None
    plans = {name: replace(plan, tax=None) for name, plan in book.plans.items()}
    return plans, book.heartbeat_timeout_s, book.xids


def _priced(terms: Terms) -> set[Key]:
    """Every SKU, plan and region that can have a price of its own; the empty region stands for all others."""
    books: Iterable[PriceBook] = (v.terms for v in terms.versions if isinstance(v.terms, PriceBook))
    return {(row.sku, row.plan, region) for book in books for row in book.prices for region in ("", row.region or "")}
