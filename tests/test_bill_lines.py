"""Stories of lines: what makes one, how it is rounded, and the whole of a bill as it is printed (R16)."""

from dataclasses import replace
from fractions import Fraction

import pytest

from pricing.bill import MonthTerms, bill_account
from pricing.contract import Contract, LongTerm
from pricing.exact import exact_sum, exact_text, sums_by_key
from pricing.usage import Rental
from tests.bill_stories import DAY, HOUR, MARCH, Stay, at, bills, book, credit, lines, months_of, totals

TERMS = MonthTerms(Contract("acct-1"), book())


def test_a_whole_bill() -> None:
    contract = Contract("acct-1", discount=Fraction("0.10"), credits=(credit("V", "50.00"),), long_term=LongTerm(1))
    run = Stay(MARCH, MARCH + 30 * HOUR)
    down = Stay(run.end, run.end + HOUR, kind="failure", rental=MARCH)
    [bill] = bills([run, down], contract, down.padding(1800), rentals=[Rental("i", MARCH, down.end)])
    assert bill.to_json() == {
        "account": "acct-1",
        "month": "2026-03",
        "currency": "CNY",
        "card_seconds": {
            "allocated": 111_600, "billable": 108_000, "failure": 3600, "migration": 0, "maintenance": 0,
            "unknown": 0, "idle": 0, "padding": 1800,
        },
        "totals": {
            "list": "109.80", "discounts": "10.98", "charges": "98.82", "credits": "50.00", "due": "48.82",
            "net": "46.06", "tax": "2.76",
        },
        "lines": [
            {
                "kind": "usage", "sku": "gpu.test", "plan": "on_demand", "region": "cn", "price": "3.60",
                "unit": "card-second", "quantity": 108_000, "padding": 1800, "list": "109.80",
                "discounts": {"contract": "10.98"}, "charge": "98.82", "credits": {"V": "50.00"},
                "tax": {"rate": "0.06", "included": True},
            }
        ],
        "credits": [{"id": "V", "kind": "voucher", "applied": "50.00", "left": "0.00", "lapsed": "0.00"}],
        "vouchers": [
            {
                "instance": "i", "rental": "2026-03-01T00:00:00+08:00", "amount": "14.82",
                "earned_at": "2026-03-02T00:00:00+08:00", "base": "98.82",
            }
        ],
        "taxes": [{"rate": "0.06", "included": True, "cash": "48.82", "net": "46.06", "tax": "2.76"}],
    }  # fmt: skip


def test_many_small_sessions_are_one_line_rounded_once() -> None:
    stays = [Stay(MARCH, MARCH + 10, instance=f"i-{n}", price="1.764") for n in range(12)]
    [bill] = bills(stays)
    assert lines(bill, "price", "quantity", "charge") == [("1.764", 120, "0.06")]


def test_half_a_fen_goes_up() -> None:
    [bill] = bills([Stay(MARCH, MARCH + HOUR, price="1.005")])
    assert totals(bill)["due"] == "1.01"


def test_a_currency_without_a_minor_unit() -> None:
    [bill] = bills([Stay(MARCH, MARCH + 1000, price="55")], terms=book("JPY"))
    assert totals(bill) == {
        "list": "15", "discounts": "0", "charges": "15", "credits": "0", "due": "15", "net": "14", "tax": "1",
    }  # fmt: skip


def test_price_plan_sku_and_region_make_a_line_and_a_project_does_not() -> None:
    base = Stay(MARCH, MARCH + HOUR)
    others = [replace(base, **change) for change in ({"price": "3"}, {"plan": "b"}, {"sku": "g"}, {"project": "q"})]  # type: ignore[arg-type]
    elsewhere = replace(base.rows()[0], region="us")
    [bill] = bills([base, *others], None, elsewhere)
    assert lines(bill, "sku", "plan", "region", "price", "quantity") == [
        ("g", "on_demand", "cn", "3.60", HOUR),
        ("gpu.test", "b", "cn", "3.60", HOUR),
        ("gpu.test", "on_demand", "cn", "3.00", HOUR),
        ("gpu.test", "on_demand", "cn", "3.60", 2 * HOUR),
        ("gpu.test", "on_demand", "us", "3.60", HOUR),
    ]


def test_a_price_that_does_not_end_stays_a_fraction() -> None:
    [bill] = bills([Stay(MARCH, MARCH + 3 * HOUR, price="1/3")])
    assert lines(bill, "price", "charge") == [("1/3", "1.00")]


def test_a_month_of_failure_has_a_bill_without_lines() -> None:
    [bill] = bills([Stay(MARCH, MARCH + DAY, kind="failure")])
    assert (bill.lines, bill.card_seconds["allocated"], totals(bill)["due"]) == ((), DAY, "0.00")


def test_a_month_without_rows_has_no_bill_and_months_come_in_order() -> None:
    stays = [Stay(at("2026-05-01"), at("2026-05-02")), Stay(MARCH, MARCH + HOUR)]
    empty = replace(months_of(stays[0].rows())[0], month=2026 * 12 + 3, rows=())
    months = [*months_of([row for stay in stays for row in stay.rows()]), empty]
    got = bill_account("acct-1", months, lambda _: TERMS, [], [], MARCH)
    assert [bill.to_json()["month"] for bill in got] == ["2026-03", "2026-05"]
    with pytest.raises(ValueError, match="given twice"):
        bill_account("acct-1", [empty, empty], lambda _: TERMS, [], [], MARCH)
    assert bill_account("acct-1", [], lambda _: TERMS, [], [], MARCH) == []


def test_discounts_of_a_line_are_rounded_running_totals() -> None:
    # exactly 0.005 after the discount of 0.005: each step shows what the rounded totals before and after differ by
    [bill] = bills([Stay(MARCH, MARCH + 10, price="3.60")], Contract("acct-1", discount=Fraction("0.5")))
    assert lines(bill, "list", "discounts", "charge") == [("0.01", {}, "0.01")]


def test_exact_figures_as_text() -> None:
    values = ["3.6", "0", "-1.25", "55", "1/3", "-2/7", "0.0000001"]
    assert [exact_text(Fraction(value), 2) for value in values] == [
        "3.60", "0.00", "-1.25", "55.00", "1/3", "-2/7", "0.0000001",
    ]  # fmt: skip
    assert exact_text(Fraction(55)) == "55"


def test_sums_of_unlike_fractions() -> None:
    fractions = [Fraction(1, n) for n in range(1, 60)]
    assert exact_sum(fractions) == sum(fractions)
    assert exact_sum([]) == 0
    assert sums_by_key([("b", Fraction(1, 2)), ("a", Fraction(1, 3)), ("b", Fraction(-1, 2))]) == {
        "b": Fraction(0), "a": Fraction(1, 3),
    }  # fmt: skip
