"""Stories of the long-term rebate: vouchers of the month that completes the days and after, or netted (R21)."""

from fractions import Fraction
from typing import Literal

from pricing.bill import Bill, MonthTerms, bill_account
from pricing.contract import Cap, Contract, LongTerm
from pricing.usage import Rental
from tests.bill_stories import DAY, FAR, HOUR, MARCH, Stay, at, bills, book, lines, months_of, totals

APRIL, MAY = at("2026-04-01"), at("2026-05-01")
MID = MARCH + 14 * DAY


def rewarding(settle: Literal["voucher", "netted"] = "voucher", *plans: str, days: int = 30) -> Contract:
    return Contract("acct-1", long_term=LongTerm(days, Fraction("0.15"), frozenset(plans) or None, settle))


def vouchers(bill: Bill) -> list[tuple[str, str, str]]:
    return [(earned["amount"], earned["earned_at"], earned["base"]) for earned in bill.to_json()["vouchers"]]


def test_thirty_days_exactly_earn_a_voucher_and_a_second_less_does_not() -> None:
    long, short = (
        bills([Stay(MARCH, end, price="2")], rewarding(), rentals=[Rental("i", MARCH, end)])[0]
        for end in (MARCH + 30 * DAY, MARCH + 30 * DAY - 1)
    )
    assert vouchers(long) == [("216.00", "2026-03-31T00:00:00+08:00", "1440.00")]
    assert vouchers(short) == []
    assert totals(long)["due"] == "1440.00"


def test_a_failure_inside_does_not_break_a_rental_and_earns_nothing() -> None:
    down = Stay(MARCH + DAY, MARCH + 2 * DAY, kind="failure", rental=MARCH, price="2")
    stays = [Stay(MARCH, down.start, price="2"), down, Stay(down.end, MARCH + 30 * DAY, rental=MARCH, price="2")]
    [bill] = bills(stays, rewarding(), rentals=[Rental("i", MARCH, MARCH + 30 * DAY)])
    assert vouchers(bill) == [("208.80", "2026-03-31T00:00:00+08:00", "1392.00")]


def test_the_first_voucher_is_for_all_since_the_start_and_later_ones_for_their_month() -> None:
    end = MAY + 2 * DAY
    march, april, may = bills([Stay(MID, end, price="1")], rewarding(), rentals=[Rental("i", MID, end)])
    assert vouchers(march) == []
    assert vouchers(april) == [("169.20", "2026-04-14T00:00:00+08:00", "1128.00")]  # 17 + 30 days
    assert vouchers(may) == [("7.20", "2026-06-01T00:00:00+08:00", "48.00")]


def test_days_completed_in_the_last_second_of_a_month_belong_to_it() -> None:
    start = APRIL - 30 * DAY
    march, april = bills([Stay(start, APRIL + HOUR)], rewarding(), rentals=[Rental("i", start, APRIL + HOUR)])
    assert [earned_at for _, earned_at, _ in vouchers(march)] == ["2026-04-01T00:00:00+08:00"]
    assert vouchers(april) == [("0.54", "2026-05-01T00:00:00+08:00", "3.60")]


def test_days_that_as_of_has_not_seen_earn_nothing() -> None:
    rental = Rental("i", MARCH, MARCH + 31 * DAY)
    stay = [Stay(MARCH, MARCH + 31 * DAY)]
    early, late = (bills(stay, rewarding(), rentals=[rental], as_of=MARCH + 30 * DAY + offset)[0] for offset in (-1, 0))
    assert (early.vouchers, len(late.vouchers)) == ((), 1)


def test_plans_limit_the_base_and_not_the_days() -> None:
    stays = [
        Stay(MARCH, MARCH + 10 * DAY, price="1"),
        Stay(MARCH + 10 * DAY, MARCH + 31 * DAY, plan="reserved", price="1", rental=MARCH),
    ]
    rental = Rental("i", MARCH, MARCH + 31 * DAY)
    [bill] = bills(stays, rewarding("voucher", "reserved"), rentals=[rental])
    assert vouchers(bill) == [("75.60", "2026-03-31T00:00:00+08:00", "504.00")]
    [bill] = bills(stays, rewarding("netted", "reserved"), rentals=[rental])
    assert lines(bill, "plan", "discounts", "charge") == [
        ("on_demand", {}, "240.00"), ("reserved", {"rebate": "75.60"}, "428.40"),
    ]  # fmt: skip


def test_netted_it_lowers_the_qualifying_month_and_later_ones() -> None:
    end = MAY + DAY
    stays = [Stay(MID, end, price="1"), Stay(APRIL, APRIL + DAY, instance="j", price="1")]
    got = bills(stays, rewarding("netted"), rentals=[Rental("i", MID, end), Rental("j", APRIL, APRIL + DAY)])
    assert [lines(bill, "list", "discounts", "charge") for bill in got] == [
        [("408.00", {}, "408.00")],
        [("744.00", {"rebate": "108.00"}, "636.00")],
        [("24.00", {"rebate": "3.60"}, "20.40")],
    ]
    assert not any(bill.vouchers for bill in got)


def test_its_base_is_exact_after_caps_and_before_lines_are_rounded() -> None:
    contract = Contract("acct-1", long_term=LongTerm(), caps=(Cap("account_month", Fraction("100.004")),))
    stays = [Stay(MARCH, MARCH + 30 * DAY), Stay(MARCH, MARCH + 15 * DAY, instance="j")]
    [bill] = bills(stays, contract, rentals=[Rental("i", MARCH, MARCH + 30 * DAY)])
    assert [voucher.base for voucher in bill.vouchers] == [Fraction("100.004") * 2 / 3]
    assert vouchers(bill) == [("10.00", "2026-03-31T00:00:00+08:00", "66.67")]


def test_nothing_is_rewarded_twice_when_the_terms_change() -> None:
    end = MAY + 30 * DAY
    months = months_of(Stay(MARCH, end, price="1").rows())
    asked = dict(zip([month.month for month in months], (30, 90, 90), strict=True))
    march, april, may = bill_account(
        "acct-1",
        months,
        lambda month: MonthTerms(rewarding(days=asked[month]), book()),
        [Rental("i", MARCH, end)],
        [],
        FAR,
    )
    assert vouchers(march) == [("111.60", "2026-03-31T00:00:00+08:00", "744.00")]
    assert vouchers(april) == []
    assert vouchers(may) == [("216.00", "2026-05-30T00:00:00+08:00", "1440.00")]
