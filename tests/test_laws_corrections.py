"""Facts up to three months late, months closed in between: all invoices say together what is known in the end (R23)."""

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.calendar import calendar, month_name
from tests.ledger_kit import Books, Event, Json, batches, examples, latest, opened, pure, second, terms_of
from tests.streams import DAY, Scene, books, contracts, events, scene_at, seconds

ZONE = "Asia/Shanghai"
SPAN = 75 * DAY
LATENESS = (0, 0, 3600, 10 * DAY, 40 * DAY, 90 * DAY)
ONE_DATABASE = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
FIGURES = ("list", "charges", "credits", "tax", "due")
MONTH_STARTS = (12, 40, 71)  # days from the scenes' start to the first instants of February, March and April


@dataclass(frozen=True)
class Story:
    """Events with how late each arrives, and terms."""

    arrivals: list[tuple[int, Event]]
    book: Json
    contract: Json


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    """A quarter from the twentieth of January on, with facts near the ends of months."""
    near = st.builds(lambda day, off: day * DAY + off, st.sampled_from(MONTH_STARTS), st.integers(-4000, 4000))
    pool = draw(st.lists(st.one_of(seconds(SPAN), near), min_size=4, max_size=10))
    currency = draw(st.sampled_from(["CNY", "JPY"]))
    return scene_at((ZONE, "2026-01-20T00:00:00"), [0, *(each for each in pool if each <= SPAN), SPAN], currency)


@st.composite
def stories(draw: st.DrawFn, *, vouchers: bool) -> Story:
    scene = draw(scenes())
    told = draw(events(scene, conflicts=False, broken=False))
    contract = draw(contracts(scene))
    contract.pop("time_zone", None)
    if "long_term" in contract:
        contract["long_term"]["settle"] = "voucher" if vouchers else "netted"
    elif vouchers:
        contract["long_term"] = {"min_days": 2, "settle": "voucher"}
    arrivals = []
    for event in told:
        assert isinstance(event, dict)
        happened = second(datetime.fromisoformat(event["time"]))
        assert happened is not None
        arrivals.append((happened + draw(st.sampled_from(LATENESS)), event))
    return Story(sorted(arrivals, key=lambda each: each[0]), draw(books(scene)), contract)


@pytest.fixture
def ledger(database_url: str) -> Iterator[Books]:
    with opened(database_url) as found:
        yield found


def raw_invoices(ledger: Books) -> dict[str, bytes]:
    rows = ledger.db.execute("SELECT number, document FROM invoice ORDER BY id").fetchall()
    return {number: bytes(raw) for number, raw in rows}


def play(ledger: Books, story: Story, chance: random.Random) -> int:
    """Record what has arrived, close the month, and so on until all has; returns the last instant."""
    ledger.fresh(terms_of(story.book, story.contract))
    waiting = list(story.arrivals)
    days = calendar(ZONE)
    first = min(latest([event]) for _, event in waiting)
    month, last_of = days.month_of(first), max(arrival for arrival, _ in waiting)
    open_months: list[int] = []
    issued: dict[str, bytes] = {}
    while True:
        closes = days.month_start(month + 1) + chance.choice([0, 3600, 5 * DAY])
        arrived = [event for arrival, event in waiting if arrival <= closes]
        waiting = [each for each in waiting if each[0] > closes]
        for batch in batches(arrived, chance):
            ledger.record(batch)
        open_months.append(month)
        if ledger.db.execute("SELECT 1 FROM batch WHERE accepted > 0 LIMIT 1").fetchone():
            for each in open_months:
                ledger.close_month(each, closes)
            open_months.clear()
        now = raw_invoices(ledger)
        assert {number: now[number] for number in issued} == issued, "an issued invoice changed"
        issued = now
        if not waiting and closes > last_of:
            return closes
        month += 1


def by_month(invoices: list[Json]) -> dict[tuple[str, str], dict[str, Decimal]]:
    """What all invoices together say of each account and month."""
    sums: dict[tuple[str, str], dict[str, Decimal]] = defaultdict(lambda: dict.fromkeys(FIGURES[:4], Decimal(0)))

    def add(account: str, month: str, name: str, rows: list[Json], column: str) -> None:
        for row in rows:
            sums[account, row.get("month", month)][name] += Decimal(row[column])

    for told in invoices:
        account, month = told["account"], told["month"]
        add(account, month, "list", told["lines"], "list")
        add(account, month, "list", told["corrections"], "list")
        add(account, month, "charges", told["lines"], "charge")
        add(account, month, "charges", told["corrections"], "amount")
        add(account, month, "credits", told["credits"] + told["credit_corrections"], "applied")
        add(account, month, "tax", told["taxes"] + told["tax_corrections"], "tax")
    return {key: found for key, found in sums.items() if any(found.values())}


def wanted_by_month(bills: list[Json], until: str) -> dict[tuple[str, str], dict[str, Decimal]]:
    found = {
        (bill["account"], bill["month"]): {name: Decimal(bill["totals"][name]) for name in FIGURES[:4]}
        for bill in bills
        if bill["month"] <= until
    }
    return {key: figures for key, figures in found.items() if any(figures.values())}


def due_by_account(rows: list[Json], until: str) -> dict[str, Decimal]:
    sums: dict[str, Decimal] = defaultdict(Decimal)
    for row in rows:
        if row["month"] <= until:
            sums[row["account"]] += Decimal(row["totals"]["due"])
    return {account: due for account, due in sums.items() if due}


def to_be_paid(invoices: list[Json]) -> dict[str, Decimal]:
    """All that was payable, and what the last invoice carries on."""
    sums: dict[str, Decimal] = defaultdict(Decimal)
    carried: dict[str, Decimal] = {}
    for told in invoices:
        sums[told["account"]] += Decimal(told["payable"])
        carried[told["account"]] = Decimal(told["carried_forward"]["to_next"])
    return {account: paid + carried[account] for account, paid in sums.items() if paid + carried[account]}


@settings(max_examples=examples(20), suppress_health_check=ONE_DATABASE)
@given(stories(vouchers=False), st.integers(0, 2**32).map(random.Random))
def test_invoices_add_up_to_the_bills_that_knew_everything_in_time(
    ledger: Books, story: Story, chance: random.Random
) -> None:
    if not story.arrivals:
        return
    closed_at = play(ledger, story, chance)
    bills = pure([event for _, event in story.arrivals], terms_of(story.book, story.contract), closed_at)["bills"]
    until = month_name(calendar(ZONE).month_of(closed_at) - 1)
    invoices = ledger.invoices()
    assert by_month(invoices) == wanted_by_month(bills, until)
    assert due_by_account(invoices, until) == due_by_account(bills, until) == to_be_paid(invoices)
    assert ledger.differences() == []


@settings(max_examples=examples(8), suppress_health_check=ONE_DATABASE)
@given(stories(vouchers=True), st.integers(0, 2**32).map(random.Random))
def test_vouchers_are_the_only_exception(ledger: Books, story: Story, chance: random.Random) -> None:
    """They pay from their issue on, so credits and tax may differ; lists and charges do not.

    What comes back of a pack is the exception's echo: it comes back in cash only for the share that no credit paid.
    """
    if not story.arrivals:
        return
    closed_at = play(ledger, story, chance)
    bills = pure([event for _, event in story.arrivals], terms_of(story.book, story.contract), closed_at)["bills"]
    until = month_name(calendar(ZONE).month_of(closed_at) - 1)
    found, wanted = by_month(ledger.invoices()), wanted_by_month(bills, until)
    assert ledger.differences() == []
    if any(line["kind"] in ("pack_refund", "pack_exclusion") for bill in bills for line in bill["lines"]):
        return
    for name in ("list", "charges"):
        assert {key: sums[name] for key, sums in found.items() if sums[name]} == {
            key: sums[name] for key, sums in wanted.items() if sums[name]
        }
