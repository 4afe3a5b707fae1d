"""Stories of packs: charge, exclusion credit, refund, and what comes back of a pack that a credit paid for (R12)."""

from dataclasses import replace
from fractions import Fraction

import pytest

from pricing.bill import MonthTerms, bill_account
from pricing.contract import Band, Cap, Contract, Tier
from pricing.packs import cash_shares
from pricing.usage import Pack
from tests.bill_stories import DAY, FAR, HOUR, MARCH, Stay, at, bills, book, credit, lines, months_of, totals

APRIL = at("2026-04-01")
FIGURES = ("kind", "quantity", "list", "charge", "credits")


def day_pack(start: int) -> Pack:
    return Pack(start, DAY, Fraction(24))


def month_pack(start: int, days: int) -> Pack:
    return Pack(start, days * DAY, Fraction(600))


def test_an_hour_of_failure_in_a_day_pack_is_credited_on_its_own_line() -> None:
    run = Stay(MARCH, MARCH + 23 * HOUR, plan="pack_day", pack=day_pack(MARCH))
    down = replace(run, start=run.end, end=MARCH + DAY, kind="failure")
    [bill] = bills([run, down], None, run.charged_pack())
    assert lines(bill, *FIGURES) == [
        ("pack", 1, "24.00", "24.00", {}),
        ("pack_exclusion", HOUR, "-1.00", "-1.00", {}),
    ]
    assert bill.card_seconds["allocated"] == DAY
    assert totals(bill)["due"] == "23.00"


def test_after_the_pack_time_is_on_demand_from_the_very_next_second() -> None:
    run = Stay(MARCH, MARCH + DAY, plan="pack_day", pack=day_pack(MARCH))
    [bill] = bills([run, Stay(MARCH + DAY, MARCH + DAY + 1800, rental=MARCH)], None, run.charged_pack())
    assert lines(bill, "kind", "plan", "charge") == [("pack", "pack_day", "24.00"), ("usage", "on_demand", "1.80")]


def test_packs_know_the_contract_discount_and_no_tier_nor_cap() -> None:
    tier = Tier("*", "graduated", "card_hours", (Band(Fraction(1)), Band(None, Fraction(0))))
    contract = Contract("acct-1", tiers=(tier,), discount=Fraction("0.25"), caps=(Cap("account_month", Fraction(1)),))
    run = Stay(MARCH, MARCH + DAY, cards=2, plan="pack_day", pack=day_pack(MARCH))
    [bill] = bills([run], contract, run.charged_pack())
    assert lines(bill, "kind", "list", "discounts", "charge") == [("pack", "48.00", {"contract": "12.00"}, "36.00")]


def test_an_early_stop_refunds_the_unused_days_in_cash_only_for_the_cash_share() -> None:
    contract = Contract("acct-1", credits=(credit("V", "150.00"),))
    run = Stay(APRIL, APRIL + 12 * DAY, plan="pack_month", pack=month_pack(APRIL, 30))
    [bill] = bills([run], contract, run.charged_pack(), run.refund(18))
    # 600 x 18 / 30 = 360.00 unused, of which three quarters were cash
    assert lines(bill, *FIGURES) == [
        ("pack", 1, "600.00", "600.00", {"V": "150.00"}),
        ("pack_refund", 18, "-270.00", "-270.00", {}),
    ]
    assert totals(bill) == {
        "list": "330.00", "discounts": "0.00", "charges": "330.00", "credits": "150.00", "due": "180.00",
        "net": "169.81", "tax": "10.19",
    }  # fmt: skip


def test_a_refund_never_feeds_the_credit_that_paid_for_the_pack() -> None:
    contract = Contract("acct-1", credits=(credit("V", "700.00"),))
    run = Stay(APRIL, APRIL + 12 * DAY, plan="pack_month", pack=month_pack(APRIL, 30))
    [bill] = bills([run, Stay(APRIL, APRIL + 100 * HOUR, instance="j")], contract, run.charged_pack(), run.refund(18))
    assert lines(bill, *FIGURES) == [
        ("pack", 1, "600.00", "600.00", {"V": "600.00"}),
        ("pack_refund", 18, "0.00", "0.00", {}),
        ("usage", 360_000, "360.00", "360.00", {"V": "100.00"}),
    ]


def test_excluded_time_of_a_later_month_returns_the_cash_share_alone() -> None:
    start = at("2026-03-22")
    contract = Contract(
        "acct-1", discount=Fraction("0.10"), credits=(credit("V", "270.00", "2026-01-01", "2026-04-01"),)
    )
    run = Stay(start, APRIL, plan="pack_month", pack=month_pack(start, 30))
    down = replace(run, start=APRIL, end=APRIL + DAY, kind="failure")
    late = replace(run, start=APRIL + DAY, end=APRIL + 4 * DAY)
    march, april = bills([run, down, late], contract, run.charged_pack(), late.refund(16))
    assert lines(march, *FIGURES) == [("pack", 1, "600.00", "540.00", {"V": "270.00"})]
    # half of the pack was cash: of 20.00 for the day that failed and 320.00 unused, at list and discounted
    assert lines(april, *FIGURES) == [
        ("pack_exclusion", DAY, "-10.00", "-9.00", {}),
        ("pack_refund", 16, "-160.00", "-144.00", {}),
    ]
    assert totals(april)["due"] == "-153.00"


def test_what_comes_back_is_at_the_discount_that_the_pack_was_sold_at() -> None:
    run = Stay(MARCH + 21 * DAY, APRIL, plan="pack_month", pack=month_pack(MARCH + 21 * DAY, 30))
    late = replace(run, start=APRIL, end=APRIL + DAY)
    months = months_of([*run.rows(), *late.rows(), run.charged_pack(), late.refund(19)])
    discounts = {months[0].month: Fraction("0.50"), months[1].month: Fraction(0)}
    march, april = bill_account(
        "acct-1", months, lambda month: MonthTerms(Contract("acct-1", discount=discounts[month]), book()), [], [], FAR
    )
    assert (totals(march)["due"], totals(april)["due"]) == ("300.00", "-190.00")


def test_an_exclusion_credit_counts_in_the_window_of_its_pack() -> None:
    early = credit("E", "100.00", "2026-01-01", "2026-03-02")
    run = Stay(MARCH, MARCH + 2 * DAY, plan="pack_month", pack=month_pack(MARCH, 31))
    down = replace(run, start=run.end, end=run.end + 30 * HOUR, kind="failure")
    first = Stay(MARCH, MARCH + 2 * HOUR, instance="j")
    [bill] = bills([run, down, first], Contract("acct-1", credits=(early,)), run.charged_pack())
    # the credit ends on the first day, long before the failure, and still pays the pack less 600 x 30 h / 31 d
    assert lines(bill, *FIGURES) == [
        ("pack", 1, "600.00", "600.00", {"E": "100.00"}),
        ("pack_exclusion", 30 * HOUR, "-24.19", "-24.19", {}),
        ("usage", 2 * HOUR, "7.20", "7.20", {}),
    ]


def test_a_pack_that_gave_everything_back_asks_nothing_of_a_credit() -> None:
    down = Stay(MARCH, MARCH + DAY, plan="pack_day", pack=day_pack(MARCH), kind="failure")
    [bill] = bills([down], Contract("acct-1", credits=(credit("V", "5.00"),)), down.charged_pack())
    assert [totals(bill)[name] for name in ("list", "credits", "due")] == ["0.00", "0.00", "0.00"]
    assert bill.to_json()["credits"] == [
        {"id": "V", "kind": "voucher", "applied": "0.00", "left": "5.00", "lapsed": "0.00"}
    ]


def test_cash_shares_are_by_window_and_net_of_exclusions() -> None:
    assert cash_shares({0: 1000, 1: 500, 2: 70}, {0: -200, 2: -70}, {0: 200, 1: 500}) == {0: Fraction(3, 4), 1: 0, 2: 1}


def test_a_refund_of_a_pack_that_nobody_charged_is_a_bug() -> None:
    run = Stay(MARCH, MARCH + DAY, plan="pack_month", pack=month_pack(at("2026-02-20"), 28))
    with pytest.raises(ValueError, match="no charge is known for the pack_month pack"):
        bills([run], None, run.refund(3))
