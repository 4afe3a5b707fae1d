"""Credits that an account may use: those of its contracts, and those that invoices issued (R19, R21)."""

from collections import defaultdict
from decimal import Decimal
from fractions import Fraction

from metering.store import Db
from pricing.contract import Credit
from pricing.terms import AccountTerms


class Grants:
    """The issued grants of all accounts, with what has been taken off them."""

    def __init__(self, db: Db) -> None:
        reductions: dict[str, list[tuple[int, Fraction]]] = defaultdict(list)
        for grant, month, amount in db.execute("SELECT grant_id, month, amount FROM grant_reduction ORDER BY month"):
            reductions[grant].append((month, Fraction(amount)))
        rows = db.execute(
            "SELECT id, account, kind, amount, since, expires, skus, first_month, instance, rental, earned_month"
            " FROM credit_grant ORDER BY id"
        ).fetchall()
        self._issued: dict[str, list[Credit]] = defaultdict(list)
        self.of_rental: dict[tuple[str, str, int, int], list[str]] = defaultdict(list)
        """(account, instance, rental, month that earned it) to the ids of the vouchers issued for it."""
        for id_, account, kind, amount, since, expires, skus, first, instance, rental, earned in rows:
            credit = Credit(id_, kind, Fraction(amount), since, expires, tuple(skus), first, tuple(reductions[id_]))
            self._issued[account].append(credit)
            if instance is not None:
                self.of_rental[(account, instance, rental, earned)].append(id_)

    def __call__(self, terms: AccountTerms) -> list[Credit]:
        """The credits of one account."""
        return [*terms.credits(), *self._issued.get(terms.name, [])]

    def unreduced(self, account: str, grant: str) -> Decimal:
        """A grant's amount without what has been taken off it."""
        credit = next(credit for credit in self._issued[account] if credit.id == grant)
        exact = credit.amount - sum((amount for _, amount in credit.reductions), Fraction(0))
        return Decimal(exact.numerator) / Decimal(exact.denominator)
