"""Issuing: composed invoices get their numbers, are stored for good, and earned vouchers become grants."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from core.calendar import calendar, instant_of, month_name, month_number
from invoices import store
from invoices.compose import RULES_VERSION, Composed, canonical_bytes, document
from invoices.grants import Grants
from metering.store import Db
from pricing.bill import Bill
from pricing.terms import AccountTerms, Terms

VOUCHER_MONTHS = 12
"""A rebate voucher is valid for so many months from its issue (R21)."""

NUMBERING_ZONE = "Asia/Shanghai"
"""Whose year an invoice's number is of."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Issuing:
    """What all invoices of one close share: ``db`` inside its transaction, the grants before it, its instant."""

    db: Db
    terms: Terms
    grants: Grants
    month: int
    as_of: int

    def issue(
        self, composed: Sequence[Composed], bills: Mapping[str, Sequence[Bill]], accepted: Mapping[str, list[Json]],
        unproven: int,
    ) -> list[Json]:  # fmt: skip
        """Issue invoices in the order given; ``accepted`` are the open questions that an account was issued with."""
        if not composed:
            return []
        pins = self._pins(unproven)
        numbering = store.Numbering(self.db, instant_of(self.as_of, calendar(NUMBERING_ZONE).zone).year)
        issued = []
        for each in composed:
            own = self.terms.account(each.account)
            asked = accepted.get(each.account, [])
            made = document(each, numbering.next(), self.as_of, own.calendar, {**pins, "accepted_open": asked})
            row = numbering.store(made, canonical_bytes(made), self.month, self.as_of, pins["terms"])
            _Vouchers(self, each, made["number"], row, own, bills.get(each.account, ())).settle()
            issued.append({"status": "issued", **made})
        numbering.close()
        return issued

    def _pins(self, unproven: int) -> Json:
        """What every invoice of this close saw."""
        counts = self.db.execute(
            "SELECT coalesce(sum(received), 0)::bigint, coalesce(sum(accepted), 0)::bigint,"
            " coalesce(sum(duplicate), 0)::bigint, coalesce(sum(rejected), 0)::bigint FROM batch"
        ).fetchone()
        assert counts is not None
        return {
            "as_of": self.as_of,
            "rules": RULES_VERSION,
            "terms": self.terms.pins[self.month],
            "chains": store.chain_heads(self.db),
            "events": dict(zip(("received", "accepted", "duplicate", "rejected"), counts, strict=True)),
            "instances_unproven": unproven,
        }


@dataclass(frozen=True, slots=True)
class _Vouchers:
    """The rebate vouchers of one invoice (R21)."""

    issuing: Issuing
    composed: Composed
    number: str
    row: int
    own: AccountTerms
    bills: Sequence[Bill]

    def settle(self) -> None:
        """What was earned becomes a grant; what an earlier month earned too much of is reduced."""
        bill = self.composed.bill
        earned = {(v.instance, v.rental, self.issuing.month): v.amount for v in (bill.vouchers if bill else ())}
        for correction in self.composed.corrections:
            when = month_number(correction.month)
            earned.update({(*key, when): amount for key, amount in correction.change.vouchers.items()})
        for (instance, rental, when), amount in sorted(earned.items()):
            if amount > 0:
                self._grant(instance, rental, when, amount)
            else:
                self._reduce(instance, rental, when, -amount)

    def _grant(self, instance: str, rental: int, when: int, amount: Decimal) -> None:
        """A grant for usage after the month that earned it, in months that are not invoiced yet."""
        issuing = self.issuing
        since = self.own.calendar.month_start(when + 1)
        expires = self.own.calendar.month_anniversary(issuing.as_of, VOUCHER_MONTHS)
        issuing.db.execute(
            "INSERT INTO credit_grant VALUES (%s, %s, 'rebate', %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            [
                f"{self.number}/{instance}/{rental}/{month_name(when)}", self.composed.account, str(amount), since,
                max(expires, since + 1), [], issuing.month + 1, self.row, instance, rental, when,
            ],
        )  # fmt: skip

    def _reduce(self, instance: str, rental: int, when: int, excess: Decimal) -> None:
        """Take back what is unspent of a voucher that turned out too large; the rest is written off, and shown."""
        issuing, account = self.issuing, self.composed.account
        spent: dict[str, Decimal] = defaultdict(Decimal)
        for bill in self.bills:
            for use in bill.credits:
                spent[use.id] += use.applied
        for grant in issuing.grants.of_rental.get((account, instance, rental, when), []):
            amount = min(excess, issuing.grants.unreduced(account, grant) - spent[grant])
            if amount > 0:
                issuing.db.execute(
                    "INSERT INTO grant_reduction VALUES (%s, %s, %s, %s)",
                    [grant, issuing.month + 1, str(amount), self.row],
                )
                excess -= amount
