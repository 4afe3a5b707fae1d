"""What it takes to price: a stream without a database, and a ledger of a million entries."""

import random
from collections.abc import Sequence
from contextlib import closing
from time import perf_counter
from typing import NamedTuple

from benchmarks.server import terms
from benchmarks.stream import MONTH_S, REGIONS, SINCE, SKUS
from core.copying import copy_rows, int4, int8, int8_array, text
from core.database import connect
from invoices.grants import Grants
from metering import store
from metering.door import accept
from metering.events import BILLABLE, FAILURE
from metering.ledger_usage import LedgerUsage
from metering.lines import Line
from metering.names import Names
from metering.pieces import Series
from metering.rate import MonthTermsOf, rate
from metering.terms_store import load_terms
from pricing.bill import bill_account
from pricing.terms import Terms

FIRST_DAY = 20513
"""The first of March 2026."""
BARE_SUM = "SELECT series_id, kind, price_id, sum(quantity) FROM entry GROUP BY series_id, kind, price_id"


def rate_events(lines: Sequence[Line]) -> float:
    """Seconds to bill a whole stream in this process."""
    known = Terms.of(*terms())
    begun = perf_counter()
    rate(accept(lines), known)
    return perf_counter() - begun


def fill(url: str, entries: int) -> None:
    """A month of entries in the recorder's form: 10,000 instances, a hundred stretches each."""
    rng = random.Random(1)
    with closing(connect(url)) as aside:
        aside.autocommit = True
        names = Names(aside)
        numbers = names.instances(f"i-{number:06d}" for number in range(10_000))
        made = {
            number: Series(f"acct-{number % 1000}", "p", rng.choice(SKUS), "on_demand", rng.choice(REGIONS))
            for number in numbers.values()
        }  # fmt: skip
        series = names.number_series(made.values())
        known = load_terms(aside)
        schedules = {each: known.account(each.account).schedule(each.sku, each.plan, each.region)
                     for each in set(made.values())}  # fmt: skip
        amounts = {each: amount for each, s in schedules.items() if (amount := s.at(SINCE)) is not None}
        prices = names.number_prices(amounts.values())
        instances = sorted(made)
    each_s = MONTH_S * len(instances) // entries
    with closing(connect(url)) as db:
        for first in range(0, entries, 100_000):
            rows = []
            for entry in range(first, min(first + 100_000, entries)):
                number, step = instances[entry % len(instances)], entry // len(instances)
                own, start = made[number], SINCE + step * each_s
                kind, day = FAILURE if entry % 17 == 0 else BILLABLE, FIRST_DAY + (start - SINCE) // 86400
                rows.append(
                    store.ENTRY_LAYOUT.row(
                        (entry + 1, 0, number, series[own], prices[amounts[own]], kind, day, start, start + each_s,
                         8 * each_s, SINCE),
                        int8(None), int4(None), int8(None), text("0-7"), int8_array((number,)),
                    )
                )  # fmt: skip
            copy_rows(db, "entry", store.ENTRY_COLUMNS, rows)
        db.commit()
    with closing(connect(url, as_owner=True)) as db:
        db.autocommit = True
        db.execute("VACUUM ANALYZE")


class Billed(NamedTuple):
    """Lines of all bills; seconds from the entries to usage, from usage to bills, and of the bare sum."""

    lines: int
    usage: float
    bills: float
    bare: float


def bill_all(url: str) -> Billed:
    """Bill every account from the ledger, beside the bare sum of the same entries."""
    with closing(connect(url)) as db, closing(connect(url)) as aside:
        aside.autocommit = True
        names, known, grants, as_of = Names(aside), load_terms(aside), Grants(db), SINCE + MONTH_S
        LedgerUsage(db, names, known, as_of, grants)  # fills the caches, as they are in a service that runs
        begun = perf_counter()
        usage = LedgerUsage(db, names, known, as_of, grants)
        summed = perf_counter()
        lines = 0
        for account, sums in usage.by_account.items():
            own = known.account(account)
            bills = bill_account(account, sums.months(), MonthTermsOf(own), sums.rentals(), grants(own), as_of)
            lines += sum(len(bill.lines) for bill in bills)
        billed = perf_counter()
        db.execute(BARE_SUM).fetchall()
        return Billed(lines, summed - begun, billed - summed, perf_counter() - billed)
