"""Closing a month: every account with something to bill gets one invoice, all in one transaction, or nothing happens.

A failed read is never a zero bill: whatever cannot be read ends the close, and the ledger's sums must agree with the
daily projection before any invoice is made.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from core.calendar import instant_of, month_name, month_of_day
from core.errors import BillingError
from invoices import store
from invoices.compose import Composed, compose, nothing
from invoices.draft import Draft, draft
from invoices.figures import invoiced_figures
from invoices.grants import Grants
from invoices.issue import Issuing
from invoices.questions import Questions, as_json, open_questions
from metering.names import Names
from metering.recorder import Recorder, Unproven
from metering.store import Db
from metering.terms_store import TERMS_LOCK, load_terms
from pricing.bill import Bill
from pricing.terms import Terms

CLOSE_LOCK = 0x67625F63


class CloseRefused(BillingError):
    """A month cannot be closed now."""

    def __init__(self, month: int, reason: str) -> None:
        super().__init__(f"{month_name(month)} cannot be closed: {reason}")


@dataclass(slots=True)
class Closed:
    """What a close did: invoices issued now, those that stood before, accounts held, instances without proof."""

    month: int
    issued: list[dict[str, Any]] = field(default_factory=list)
    known: int = 0
    held: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    accepted: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    unproven: list[Unproven] = field(default_factory=list)
    skipped_months: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The object of ``gpu-billing close --json``."""
        return {
            "month": month_name(self.month),
            "issued": self.issued,
            "known": self.known,
            "held": [{"account": account, "questions": asked} for account, asked in sorted(self.held.items())],
            "unproven": [
                {"instance": each.instance, "proven_until": instant_of(each.until).isoformat()}
                for each in self.unproven
            ],
            "earlier_months_open": self.skipped_months,
        }


def close_month(recorder: Recorder, db: Db, names: Names, month: int, as_of: int, accept_open: bool) -> Closed:
    """Close a month at an instant, for all accounts at once; ``db`` must be in autocommit mode.

    Safe to run twice and concurrently: one transaction at a time issues, and what is issued is found by the next.
    """
    terms = load_terms(db)
    _check(db, terms, month, as_of)
    unproven = recorder.accrue(lambda account: terms.account(account).calendar.month_start(month + 1))
    with db.transaction():
        # The locks come before the snapshot: a close that waited must see what the one before it issued.
        db.execute("SELECT pg_advisory_lock(%s)", [CLOSE_LOCK])
    try:
        with db.transaction():
            db.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            db.execute("SELECT pg_advisory_xact_lock(%s)", [TERMS_LOCK])
            closing = _Closing(db, names, month, as_of, accept_open, unproven)
            return closing.run()
    finally:
        db.execute("SELECT pg_advisory_unlock(%s)", [CLOSE_LOCK])


def _check(db: Db, terms: Terms, month: int, as_of: int) -> None:
    """Refuse a month that has not ended, and a ledger without data."""
    accounts = [row[0] for row in db.execute("SELECT DISTINCT account FROM series")]
    row = db.execute("SELECT count(*) FROM batch WHERE accepted > 0").fetchone()
    if row is None or not row[0]:
        raise CloseRefused(month, "no event was ever recorded")
    for calendar in {terms.account(account).calendar for account in [*accounts, ""]}:
        end = calendar.month_start(month + 1)
        if as_of < end:
            ends, now = (instant_of(second, calendar.zone).isoformat() for second in (end, as_of))
            raise CloseRefused(month, f"it ends at {ends}, after {now}")


class _Closing:
    """One close inside its transaction."""

    def __init__(
        self, db: Db, names: Names, month: int, as_of: int, accept_open: bool, unproven: list[Unproven]
    ) -> None:
        self._db, self._names, self._month, self._as_of, self._accept = db, names, month, as_of, accept_open
        self._result = Closed(month, unproven=unproven)

    def run(self) -> Closed:
        """Gather, compose every account's invoice, issue."""
        db, month = self._db, self._month
        first_time = self._pin()
        self._terms = load_terms(db)
        self._agree()
        grants = Grants(db)
        last = max([month, *self._terms.pins])
        self._note_earlier_months()
        found = draft(db, self._names, self._terms, grants, self._as_of, until_month=last)
        questions = open_questions(db, self._names, self._terms, month, found.usage.findings, self._as_of)
        invoices = store.documents_by_account(db)
        held_before = store.held_accounts(db, month)
        self._result.known = sum(name == month_name(month) for name in _months_of(invoices))
        accounts = sorted(
            found.bills.keys() | invoices.keys() | (questions.keys() - {""}) if first_time else held_before
        )
        if questions.get("") and not self._accept:
            self._result.held[""] = questions[""]
        composed = self._compose(accounts, found, invoices, questions)
        issuing = Issuing(db, self._terms, grants, month, self._as_of)
        result = self._result
        result.issued = issuing.issue(composed, found.bills, result.accepted, len(result.unproven))
        return result

    def _pin(self) -> bool:
        """Pin the month's terms at its first close; returns whether this is the first."""
        row = self._db.execute(
            "INSERT INTO month_pin SELECT %s, coalesce(max(number), 0), %s FROM terms_version"
            " ON CONFLICT DO NOTHING RETURNING month",
            [self._month, self._as_of],
        ).fetchone()
        return row is not None

    def _note_earlier_months(self) -> None:
        """Earlier months with usage that nobody has closed are told: their bills are still open."""
        rows = self._db.execute("SELECT DISTINCT day FROM usage_day").fetchall()
        used = {month_of_day(day) for (day,) in rows}
        earlier = sorted(used - self._terms.pins.keys())
        self._result.skipped_months = [month_name(month) for month in earlier if month < self._month]

    def _agree(self) -> None:
        """The ledger and the daily projection must tell the same sums, else something has not been read or written."""
        row = self._db.execute(
            "SELECT (SELECT coalesce(sum(quantity), 0) FROM entry), (SELECT coalesce(sum(quantity), 0) FROM usage_day)"
        ).fetchone()
        if row is None or row[0] != row[1]:
            sums = f"entries sum to {row and row[0]}, the daily projection to {row and row[1]}"
            raise CloseRefused(self._month, sums)

    def _compose(
        self, accounts: Sequence[str], found: Draft, invoices: Mapping[str, list[dict[str, Any]]], questions: Questions
    ) -> list[Composed]:
        holds = store.holds(self._db)
        composed = []
        for account in accounts:
            documents = invoices.get(account, [])
            if any(each["month"] == month_name(self._month) for each in documents):
                continue
            closed = frozenset(month_name(month) for month in self._terms.pins) - holds.get(account, frozenset())
            bills = {month_name(bill.month): bill for bill in found.bills.get(account, [])}
            invoiced = invoiced_figures(documents)
            currency = self._currency(account, bills)
            carried = Decimal(documents[-1]["carried_forward"]["to_next"]) if documents else nothing(currency)
            each = compose(account, self._month, currency, bills, invoiced, closed, carried)
            if self._held(account, questions.get(account, [])):
                continue
            if not each.empty:
                composed.append(each)
        return composed

    def _held(self, account: str, asked: list[dict[str, Any]]) -> bool:
        """Whether open questions hold an account; accepted ones are recorded with its invoice."""
        if not asked:
            return False
        if self._accept:
            self._result.accepted[account] = asked
            return False
        self._result.held[account] = asked
        self._db.execute(
            "INSERT INTO close_hold VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING",
            [self._month, account, self._as_of, as_json(asked)],
        )
        return True

    def _currency(self, account: str, bills: Mapping[str, Bill]) -> str:
        if bills:
            return next(iter(bills.values())).currency
        terms = self._terms.account(account).month(self._month)
        return terms.book.currency if terms else "CNY"


def _months_of(invoices: Mapping[str, list[dict[str, Any]]]) -> Iterator[str]:
    return (each["month"] for documents in invoices.values() for each in documents)
