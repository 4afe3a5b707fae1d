"""The draft: what every account owes as of an instant, computed from the ledger and never stored.

``bills_json`` answers what ``rate`` answers on the same facts, from the ledger.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from core.calendar import instant_of
from invoices.grants import Grants
from metering.events import read_event
from metering.ledger_usage import LedgerUsage
from metering.names import Names
from metering.rate import MonthTermsOf
from metering.store import Db
from metering.terms_store import load_terms
from metering.timeline import REJECT_KINDS, Finding, heard_once
from pricing.bill import Bill, bill_account
from pricing.terms import Terms


@dataclass(frozen=True, slots=True)
class Draft:
    """Bills by account, months ascending, and the usage that they price."""

    bills: dict[str, list[Bill]]
    usage: LedgerUsage


def draft(
    db: Db, names: Names, terms: Terms, grants: Grants, as_of: int, accounts: Sequence[str] | None = None,
    until_month: int | None = None,
) -> Draft:  # fmt: skip
    """The bills of accounts (all where none are named) as of an instant, up to a month where one is given."""
    usage = LedgerUsage(db, names, terms, as_of, grants, accounts)
    bills = {}
    for account, sums in sorted(usage.by_account.items()):
        own = terms.account(account)
        months = [month for month in sums.months() if until_month is None or month.month <= until_month]
        bills[account] = bill_account(account, months, MonthTermsOf(own), sums.rentals(), grants(own), as_of)
    return Draft(bills, usage)


def read_snapshot(db: Db) -> None:
    """Begin the caller's transaction as one consistent view of the books, for reading."""
    db.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")


def bills_json(db: Db, names: Names, as_of: int, account: str | None, month: int | None) -> dict[str, Any]:
    """The object of ``gpu-billing bills``."""
    with db.transaction():
        read_snapshot(db)
        found = draft(db, names, load_terms(db), Grants(db), as_of, [account] if account else None)
        duplicates = db.execute("SELECT coalesce(sum(duplicate), 0)::bigint FROM batch").fetchone()
        rejects = refused(db)
        events = event_ids(db, [each.seq for _, each in found.usage.findings])
    anomalies = []
    for subject, each in _heard_once(found.usage.findings):
        if each.kind in REJECT_KINDS:
            position = f"event {each.seq}"
            rejects.append({"id": events.get(each.seq), "reason": each.kind, "detail": each.detail, "at": position})
        else:
            anomalies.append(finding_json(subject, each, events.get(each.seq)))
    bills = [bill for own in found.bills.values() for bill in own]
    return {
        "bills": [bill.to_json() for bill in bills if month is None or bill.month == month],
        "rejects": rejects,
        "duplicates": duplicates[0] if duplicates else 0,
        "anomalies": anomalies,
    }


def _heard_once(findings: Sequence[tuple[str, Finding]]) -> list[tuple[str, Finding]]:
    by_instance: dict[str, list[Finding]] = defaultdict(list)
    for subject, each in findings:
        by_instance[subject].append(each)
    return [(subject, each) for subject, own in by_instance.items() for each in heard_once(own)]


def finding_json(subject: str, finding: Finding, event_id: str | None) -> dict[str, Any]:
    """A finding as others read it."""
    at = instant_of(finding.second).isoformat()
    return {"kind": finding.kind, "instance": subject, "at": at, "id": event_id, "detail": finding.detail}


def refused(db: Db) -> list[dict[str, Any]]:
    """What was refused by itself: unreadable events and conflicts."""
    rows = db.execute("SELECT event_id, reason, detail, position FROM reject ORDER BY id").fetchall()
    told = [{"id": id_, "reason": reason, "detail": detail, "at": at} for id_, reason, detail, at in rows]
    for raw, digest in db.execute("SELECT raw, digest FROM conflict ORDER BY id"):
        fact = read_event(bytes(raw))
        detail = f"{fact.source}#{fact.id} came with another body before; this one has digest {bytes(digest).hex()}"
        told.append({"id": fact.id, "reason": "conflict", "detail": detail, "at": ""})
    return told


def event_ids(db: Db, numbers: Sequence[int]) -> dict[int, str]:
    """The ids of events by their numbers."""
    rows = db.execute("SELECT seq, raw FROM event WHERE seq = ANY(%s)", [sorted(set(numbers))]).fetchall()
    return {seq: read_event(bytes(raw)).id for seq, raw in rows}
