"""The dry run: events, a price book and a contract in, bills out; no clock, no database (``gpu-billing rate``)."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from metering.door import Accepted, Reject
from metering.events import Fact, is_decision
from metering.history import Timeline, fold_history, standing
from metering.pieces import Piece
from metering.proof import NO_PROOF
from metering.timeline import REJECT_KINDS, Finding, heard_once
from metering.usage import UsageSums
from pricing.bill import Bill, bill_account
from pricing.contract import Credit
from pricing.terms import AccountTerms, MonthTerms, Terms


@dataclass(frozen=True, slots=True)
class Rated:
    """Bills by account and month, and all that a person should see of the events behind them."""

    bills: list[Bill]
    rejects: list[Reject]
    duplicates: int
    anomalies: list[dict[str, Any]]

    def to_json(self) -> dict[str, Any]:
        """The object of ``gpu-billing rate``."""
        return {
            "bills": [bill.to_json() for bill in self.bills],
            "rejects": [{"id": r.id, "reason": r.reason, "detail": r.detail, "at": r.position} for r in self.rejects],
            "duplicates": self.duplicates,
            "anomalies": self.anomalies,
        }


def rate(accepted: Accepted, terms: Terms, as_of: int | None = None) -> Rated:
    """Bill a whole stream; without ``as_of`` as of its last event."""
    until = accepted.latest if as_of is None else as_of
    timelines = timelines_of(accepted, terms, until)
    by_account: dict[str, list[tuple[str, Piece]]] = defaultdict(list)
    for subject, timeline in sorted(timelines.items()):
        for piece in timeline.pieces:
            by_account[piece.series.account].append((subject, piece))
    bills = [
        bill for account in sorted(by_account) for bill in bills_of(by_account[account], terms.account(account), until)
    ]
    events = {fact.seq: fact for fact in accepted.facts}
    rejects, anomalies = list(accepted.rejects), []
    for subject, timeline in sorted(timelines.items()):
        for finding in heard_once(timeline.findings):
            if finding.kind in REJECT_KINDS:
                rejects.append(_refused(finding, events.get(finding.seq)))
            else:
                anomalies.append(anomaly(subject, finding, events.get(finding.seq)))
    return Rated(bills, rejects, accepted.duplicates, anomalies)


def timelines_of(accepted: Accepted, terms: Terms, as_of: int) -> dict[str, Timeline]:
    """The timeline of every instance, as known at an instant."""
    known = [fact for fact in accepted.facts if fact.second <= as_of or not is_decision(fact.kind)]
    by_instance: dict[str, list[Fact]] = defaultdict(list)
    for fact in standing(known, accepted.bodies):
        by_instance[fact.subject].append(fact)
    return {
        subject: fold_history(by_instance.get(subject, ()), _proof(accepted, subject), terms, as_of)
        for subject in sorted(by_instance.keys() | accepted.beats.keys())
    }


def bills_of(pieces: Sequence[tuple[str, Piece]], terms: AccountTerms, as_of: int) -> list[Bill]:
    """The bills of one account from its pieces."""
    grants = terms.credits()
    sums = UsageSums(terms.calendar, credit_instants(grants))
    for instance, piece in pieces:
        sums.add(instance, piece)
    return bill_account(terms.name, sums.months(), MonthTermsOf(terms), sums.rentals(), grants, as_of)


def credit_instants(grants: Iterable[Credit]) -> list[int]:
    """The instants at which any of the credits begins or ends."""
    return [instant for credit in grants for instant in (credit.since, credit.expires)]


@dataclass(frozen=True, slots=True)
class MonthTermsOf:
    """Month number to the terms in force; a month without a price book cannot have been priced and is a bug."""

    terms: AccountTerms

    def __call__(self, month: int) -> MonthTerms:
        """The terms of one month."""
        found = self.terms.month(month)
        if found is None:
            raise LookupError(f"account {self.terms.name} has usage in a month without a price book")
        return found


def anomaly(subject: str, finding: Finding, event: Fact | None) -> dict[str, Any]:
    """A finding as others read it."""
    return {
        "kind": finding.kind, "instance": subject, "at": finding.second, "id": event.id if event else None,
        "detail": finding.detail,
    }  # fmt: skip


def _refused(finding: Finding, event: Fact | None) -> Reject:
    position = f"line {finding.seq}" if event else ""
    return Reject(position, finding.kind, finding.detail, event.id if event else None)


def _proof(accepted: Accepted, subject: str) -> Any:
    beats = accepted.beats.get(subject)
    return beats.proof() if beats else NO_PROOF
