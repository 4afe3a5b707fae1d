"""Stories of caps by instance and day, by instance and month, by account and month (R14)."""

from fractions import Fraction
from typing import Literal

import pytest

from core.calendar import calendar
from pricing.bill import MonthTerms, bill_account
from pricing.contract import Cap, Contract, LongTerm
from pricing.usage import MonthUsage, Rental
from tests.bill_stories import DAY, HOUR, MARCH, ZONE, Stay, bills, book, lines, rows_of, totals

Per = Literal["instance_day", "instance_month", "account_month"]


def capped(*caps: tuple[Per, str], discount: str = "0") -> Contract:
    return Contract(
        "acct-1", caps=tuple(Cap(per, Fraction(amount)) for per, amount in caps), discount=Fraction(discount)
    )


def test_a_day_cap_is_reached_in_mid_day_and_the_next_day_starts_anew() -> None:
    [bill] = bills([Stay(MARCH, MARCH + DAY + 2 * HOUR)], capped(("instance_day", "50.00")))
    assert lines(bill, "list", "discounts", "charge") == [("93.60", {"cap": "36.40"}, "57.20")]


def test_a_cap_holds_over_stop_and_start_migration_and_projects() -> None:
    stays = [
        Stay(MARCH, MARCH + 3 * HOUR),
        Stay(MARCH + 4 * HOUR, MARCH + 7 * HOUR, project="q"),
        Stay(MARCH + 8 * HOUR, MARCH + 9 * HOUR, sku="gpu.other"),
    ]
    [bill] = bills(stays, capped(("instance_day", "7.00")))
    assert lines(bill, "sku", "list", "charge") == [("gpu.other", "3.60", "1.00"), ("gpu.test", "21.60", "6.00")]


def test_a_cap_is_per_card_held_on_average() -> None:
    stays = [Stay(MARCH, MARCH + 6 * HOUR, cards=3), Stay(MARCH + 6 * HOUR, MARCH + DAY)]
    [bill] = bills(stays, capped(("instance_day", "20.00")))
    assert totals(bill)["due"] == "30.00"  # 36 card-hours in 24 hours: 1.5 cards


def test_excluded_time_counts_for_the_cards_held_and_costs_nothing() -> None:
    stays = [Stay(MARCH, MARCH + 6 * HOUR), Stay(MARCH + 6 * HOUR, MARCH + DAY, kind="maintenance", rental=MARCH)]
    [bill] = bills(stays, capped(("instance_day", "20.00")))
    assert totals(bill) == {
        "list": "21.60", "discounts": "1.60", "charges": "20.00", "credits": "0.00", "due": "20.00",
        "net": "18.87", "tax": "1.13",
    }  # fmt: skip


def test_padding_is_under_the_cap_and_no_card_held() -> None:
    stay = Stay(MARCH, MARCH + HOUR, cards=2)
    [bill] = bills([stay], capped(("instance_day", "5.00")), stay.padding(4 * HOUR))
    assert lines(bill, "quantity", "padding", "list", "charge") == [(2 * HOUR, 4 * HOUR, "21.60", "10.00")]


def test_days_first_then_months_then_the_account() -> None:
    stays = [Stay(MARCH, MARCH + 3 * DAY), Stay(MARCH, MARCH + 5 * HOUR, instance="j")]
    caps = (("instance_day", "60.00"), ("instance_month", "150.00"), ("account_month", "84.00"))
    charges = [totals(bill)["charges"] for count in range(4) for bill in bills(stays, capped(*caps[:count]))]  # type: ignore[arg-type]
    assert charges == ["277.20", "198.00", "168.00", "84.00"]


def test_the_lower_of_two_caps_holds_and_the_discount_comes_before() -> None:
    contract = capped(("account_month", "50.00"), ("account_month", "40.00"), discount="0.50")
    [bill] = bills([Stay(MARCH, MARCH + DAY)], contract)
    assert lines(bill, "list", "discounts", "charge") == [("86.40", {"contract": "43.20", "cap": "3.20"}, "40.00")]


def test_a_cap_of_nothing_makes_everything_free() -> None:
    [bill] = bills([Stay(MARCH, MARCH + DAY)], capped(("instance_month", "0"), ("account_month", "0")))
    assert totals(bill)["due"] == "0.00"


def test_a_netted_rebate_comes_before_the_cap() -> None:
    contract = Contract("acct-1", caps=(Cap("account_month", Fraction(2300)),), long_term=LongTerm(settle="netted"))
    [bill] = bills([Stay(MARCH, MARCH + 31 * DAY)], contract, rentals=[Rental("i", MARCH, MARCH + 31 * DAY)])
    assert lines(bill, "list", "discounts", "charge") == [("2678.40", {"rebate": "401.76"}, "2276.64")]


def test_an_instance_cap_without_held_seconds_is_a_bug() -> None:
    usage = MonthUsage(calendar(ZONE).month_of(MARCH), tuple(rows_of([Stay(MARCH, MARCH + HOUR)])), {})
    terms = MonthTerms(capped(("instance_day", "1.00")), book())
    with pytest.raises(ValueError, match="held_seconds"):
        bill_account("acct-1", [usage], lambda _: terms, [], [], MARCH)
