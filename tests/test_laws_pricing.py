"""Laws that every bill obeys, whatever was used, on whatever terms, in whatever order (R13, R14, R16, R17, R19)."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from core.calendar import calendar
from pricing.bill import Bill, MonthTerms, bill_account
from pricing.book import Plan, Tax
from pricing.caps import Held, cap_factors, instance_capped
from pricing.cells import split_bill
from pricing.contract import Band, Cap, Contract, Credit, LongTerm, Tier
from pricing.quantities import Cell, LineKey
from pricing.tiers import tiered_prices
from pricing.usage import MonthUsage, Pack, Rental, Usage
from tests.bill_stories import DAY, MARCH, ZONE, book

DAYS = calendar(ZONE)
SKUS = ("gpu.a", "gpu.b", "cpu.c")
HALVES = tuple(MARCH + DAY * number // 2 for number in range(0, 80, 7))
BOOK = book(plans=[Plan("reserved", tax=Tax(Fraction(1, 10), included=False))])

rates = st.sampled_from([Fraction(text) for text in ("0", "0.1", "1/3", "0.5", "1")])
amounts = st.sampled_from([Fraction(text) for text in ("0.01", "0.5", "7.77", "40", "1000", "100/3")])
bounds = st.lists(st.integers(1, 300), min_size=0, max_size=3, unique=True).map(sorted)


@st.composite
def tiers(draw: st.DrawFn) -> Tier:
    last: list[Fraction | None] = draw(st.sampled_from([[], [None]]))
    limits = [*map(Fraction, draw(bounds)), *last] or [None]
    bands = tuple(
        draw(st.sampled_from([Band(limit), Band(limit, draw(amounts)), Band(limit, None, draw(rates))]))
        for limit in limits
    )
    return Tier(
        draw(st.sampled_from(["*", "gpu.*", "gpu.a"])),
        draw(st.sampled_from(["graduated", "volume"])),
        draw(st.sampled_from(["card_hours", "spend"])),
        bands,
    )


@st.composite
def grants(draw: st.DrawFn) -> tuple[Credit, ...]:
    count = draw(st.integers(0, 4))
    return tuple(
        Credit(
            f"c{number}",
            "voucher",
            draw(amounts),
            since := draw(st.sampled_from(HALVES)),
            since + draw(st.integers(1, 60)) * DAY,
            draw(st.sampled_from([(), ("gpu.*",), ("gpu.a",), ("gpu.a", "cpu.c")])),
        )
        for number in range(count)
    )


contracts = st.builds(
    Contract,
    account=st.just("acct-1"),
    tiers=st.lists(tiers(), max_size=2).map(tuple),
    discount=rates,
    caps=st.lists(
        st.builds(Cap, st.sampled_from(["instance_day", "instance_month", "account_month"]), amounts), max_size=3
    ).map(tuple),
    long_term=st.none()
    | st.builds(
        LongTerm,
        st.integers(1, 40),
        rates,
        st.sampled_from([None, frozenset({"reserved"})]),
        st.sampled_from(["voucher", "netted"]),
    ),
    credits=grants(),
)


@st.composite
def usages(draw: st.DrawFn) -> tuple[Usage, ...]:
    """Rows of up to three instances in March and April, packs with their charges included."""
    rows: list[Usage] = []
    for _ in range(draw(st.integers(1, 8))):
        instance, second = draw(st.sampled_from(["i", "j", "k"])), MARCH + draw(st.integers(0, 50 * DAY - 1))
        kind = draw(st.sampled_from(["billable", "billable", "padding", "failure", "pack"]))
        day, quantity = DAYS.day_of(second), draw(st.integers(1, 200_000))
        names = (instance, MARCH, draw(st.sampled_from("pq")), draw(st.sampled_from(SKUS)))
        plan = draw(st.sampled_from(["on_demand", "reserved"]))
        price = draw(amounts)
        if kind == "pack":
            pack = Pack(second, DAY * 10 + 5, price)
            place = (*names, "pack", "cn")
            rows.append(Usage("pack", *place, day, second, price, 2, pack))
            rows.append(Usage("failure", *place, day, second, price, quantity, pack))
            rows.append(Usage("pack_refund", *place, day + 12, second + 12 * DAY, price, 3, pack))
        else:
            # padding never comes without time that was allocated that day
            rows.append(Usage("billable", *names, plan, "cn", day, second, price, quantity))
            rows.append(Usage(kind, *names, plan, "cn", day, second, price, quantity))  # type: ignore[arg-type]
    return tuple(rows)


def billed(rows: tuple[Usage, ...], contract: Contract, credits: tuple[Credit, ...] | None = None) -> list[Bill]:
    held = {(row.instance, row.day): 40_000 for row in rows}
    by_month: dict[int, list[Usage]] = {}
    for row in rows:
        by_month.setdefault(DAYS.month_of(row.at), []).append(row)
    months = [MonthUsage(month, tuple(part), held) for month, part in by_month.items()]
    rentals = [Rental(instance, MARCH, MARCH + 50 * DAY) for instance in "ijk"]
    terms: Callable[[int], MonthTerms] = lambda _: MonthTerms(contract, BOOK)  # noqa: E731
    grants = contract.credits if credits is None else credits
    return bill_account("acct-1", months, terms, rentals, grants, MARCH + 50 * DAY)


@given(usages(), contracts, st.randoms())
@settings(max_examples=60)
def test_neither_the_order_of_rows_nor_of_credits_matters(
    rows: tuple[Usage, ...], contract: Contract, random: Random
) -> None:
    shuffled, credits = list(rows), list(contract.credits)
    random.shuffle(shuffled)
    random.shuffle(credits)
    assert billed(tuple(shuffled), contract, tuple(credits)) == billed(rows, contract)


@given(usages(), contracts, st.integers(1, 199_999))
@settings(max_examples=60)
def test_cutting_rows_into_smaller_ones_changes_nothing(rows: tuple[Usage, ...], contract: Contract, size: int) -> None:
    cut: list[Usage] = []
    for row in rows:
        first = min(size, row.quantity)
        cut += [replace(row, quantity=first), replace(row, quantity=row.quantity - first)]
    assert billed(tuple(cut), contract) == billed(rows, contract)


@given(usages(), contracts)
@settings(max_examples=100)
def test_lines_foot_to_totals_and_net_and_tax_to_what_is_due(rows: tuple[Usage, ...], contract: Contract) -> None:
    for bill in billed(rows, contract):
        totals = bill.totals
        assert totals.list == sum(line.list for line in bill.lines)
        assert totals.charges == totals.list - totals.discounts == sum(line.charge for line in bill.lines)
        assert totals.credits == sum(use.applied for use in bill.credits)
        assert totals.credits == sum(sum(line.credits.values()) for line in bill.lines)
        assert totals.net + totals.tax == totals.due
        added = sum(part.tax for part in bill.taxes if not part.included)
        assert totals.due == totals.charges - totals.credits + added
        for line in bill.lines:
            assert sum(line.discounts.values()) == line.discount
            assert 0 <= line.charge - line.cash <= max(line.charge, Decimal(0))


@given(usages(), contracts)
@settings(max_examples=60)
def test_cells_foot_to_lines(rows: tuple[Usage, ...], contract: Contract) -> None:
    for bill in billed(rows, contract):
        split = split_bill(bill, [row for row in rows if DAYS.month_of(row.at) == bill.month])
        for line in bill.lines:
            cells = split[line.key]
            assert (line.list, line.charge) == (sum(cell.list for cell in cells), sum(cell.charge for cell in cells))
            assert line.credits == {
                credit: sum(cell.credits.get(credit, Decimal(0)) for cell in cells) for credit in line.credits
            }
            assert all(sum(cell.credits.values(), Decimal(0)) <= max(cell.charge, Decimal(0)) for cell in cells)
            assert line.quantity == sum(cell.quantity for cell in cells)


@given(usages(), contracts)
@settings(max_examples=100)
def test_a_credit_never_pays_more_than_was_granted(rows: tuple[Usage, ...], contract: Contract) -> None:
    bills = billed(rows, contract)
    for credit in contract.credits:
        uses = [use for bill in bills for use in bill.credits if use.id == credit.id]
        assert all(min(use.applied, use.left, use.lapsed) >= 0 for use in uses)
        spent = sum((use.applied + use.lapsed for use in uses), Decimal(0))
        assert spent <= credit.amount
        if uses:
            assert spent + uses[-1].left == Decimal(int(credit.amount * 100)) / 100


@given(
    st.lists(st.tuples(st.sampled_from("ij"), st.integers(0, 3), st.integers(0, 99), amounts), max_size=12), contracts
)
def test_no_cap_is_exceeded_however_usage_is_split(
    parts: list[tuple[str, int, int, Fraction]], contract: Contract
) -> None:
    charges = {
        Cell(LineKey("usage", "gpu.a", "on_demand", "cn", price), 0, instance, day, rental): price * (rental + 1)
        for instance, day, rental, price in parts
    }
    held = Held({(i, day): 200 for i in "ij" for day in range(4)}, {(i, day): 100 for i in "ij" for day in range(4)})
    factors = cap_factors(contract.caps, charges, held)
    left = {cell: amount * factors.account for cell, amount in instance_capped(charges, factors)}
    assert all(0 <= left[cell] <= amount for cell, amount in charges.items())
    for cap in contract.caps:
        for group in {_group(cap, cell) for cell in charges}:
            allowed = cap.amount if cap.per == "account_month" else 2 * cap.amount
            assert sum(amount for cell, amount in left.items() if _group(cap, cell) == group) <= allowed


def _group(cap: Cap, cell: Cell) -> tuple[str, int]:
    return {
        "instance_day": (cell.instance, cell.day),
        "instance_month": (cell.instance, 0),
        "account_month": ("", 0),
    }[cap.per]


@given(tiers(), st.integers(1, 2_000_000), st.integers(1, 3600))
def test_graduated_tiers_are_continuous_and_monotone(tier: Tier, seconds: int, more: int) -> None:
    tier = replace(tier, mode="graduated", sku="*")
    line = LineKey("usage", "gpu.a", "on_demand", "cn", Fraction("3.60"))

    def charge(quantity: int) -> Fraction:
        return tiered_prices([tier], {line: quantity})[line] * quantity / 3600

    dearest = max([line.price, *(band.price for band in tier.bands if band.price is not None)])
    assert 0 <= charge(seconds + more) - charge(seconds) <= dearest * more / 3600


@given(tiers(), st.lists(st.integers(1, 1_000_000), min_size=3, max_size=3), st.integers(1, 3600))
def test_tiers_on_spend_are_monotone_over_unlike_prices(tier: Tier, quantities: list[int], more: int) -> None:
    bands = tuple(replace(band, price=None) for band in tier.bands)
    tier = replace(tier, mode="graduated", sku="*", measure="spend", bands=bands)
    lines = [LineKey("usage", sku, "on_demand", "cn", Fraction(n + 1)) for n, sku in enumerate(SKUS)]

    def charge(seconds: list[int]) -> Fraction:
        prices = tiered_prices([tier], dict(zip(lines, seconds, strict=True)))
        return sum((prices[line] * used for line, used in zip(lines, seconds, strict=True)), Fraction(0))

    assert charge([quantities[0] + more, *quantities[1:]]) >= charge(quantities)
