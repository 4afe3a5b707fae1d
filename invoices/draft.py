"""The draft: what every account owes as of an instant, computed from the ledger and never stored.

``bills`` answers what ``rate`` answers on the same facts, from the ledger.
"""

from dataclasses import dataclass
from typing import Any

from metering.ledger_usage import CreditsOf, LedgerUsage
from metering.names import Names
from metering.rate import MonthTermsOf, credits_of
from metering.store import Db
from metering.terms_store import load_terms
from metering.timeline import REJECT_KINDS
from pricing.bill import Bill, bill_account
from pricing.terms import Terms


@dataclass(frozen=True, slots=True)
class Draft:
    """Bills by account and month, and what was found of the events behind them."""

    bills: list[Bill]
    usage: LedgerUsage


def draft(db: Db, names: Names, terms: Terms, as_of: int, accounts: list[str] | None = None) -> Draft:
    """The bills of accounts (all where none are named) as of an instant, months ascending."""
    credits = CreditsOf()
    usage = LedgerUsage(db, names, terms, as_of, credits, accounts)
    bills = []
    for account, sums in sorted(usage.by_account.items()):
        own = terms.account(account)
        months = sums.months()
        bills += bill_account(account, months, MonthTermsOf(own), sums.rentals(), credits_of(own), as_of)
    return Draft(bills, usage)


def bills_json(db: Db, names: Names, as_of: int, account: str | None, month: int | None) -> dict[str, Any]:
    """The object of ``gpu-billing bills``."""
    with db.transaction():
        db.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        found = draft(db, names, load_terms(db), as_of, [account] if account else None)
        duplicates = db.execute("SELECT coalesce(sum(duplicate), 0) FROM batch").fetchone()
        rejects = _refused(db)
    events = _event_ids(db, [each.seq for _, each in found.usage.findings])
    anomalies = []
    for subject, each in found.usage.findings:
        told = {
            "kind": each.kind, "instance": subject, "at": each.second, "id": events.get(each.seq), "detail": each.detail
        }  # fmt: skip
        if each.kind in REJECT_KINDS:
            rejects.append({"id": told["id"], "reason": each.kind, "detail": each.detail, "at": f"event {each.seq}"})
        else:
            anomalies.append(told)
    return {
        "bills": [bill.to_json() for bill in found.bills if month is None or bill.month == month],
        "rejects": rejects,
        "duplicates": int(duplicates[0]) if duplicates else 0,
        "anomalies": anomalies,
    }


def _refused(db: Db) -> list[dict[str, Any]]:
    """What was refused by itself: unreadable events and conflicts."""
    rows = db.execute(
        "SELECT event_id, reason, detail, position FROM reject UNION ALL"
        " SELECT convert_from(raw, 'UTF8')::json ->> 'id', 'conflict', 'digest ' || encode(digest, 'hex'), ''"
        " FROM conflict"
    ).fetchall()
    return [{"id": id_, "reason": reason, "detail": detail, "at": position} for id_, reason, detail, position in rows]


def _event_ids(db: Db, numbers: list[int]) -> dict[int, str]:
    from metering.events import read_event

    rows = db.execute("SELECT seq, raw FROM event WHERE seq = ANY(%s)", [sorted(set(numbers))]).fetchall()
    return {seq: read_event(bytes(raw)).id for seq, raw in rows}
