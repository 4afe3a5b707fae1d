"""Stories of tiers: bands by card-hours and by spend, their bounds, and how several follow each other (R13)."""

from fractions import Fraction

import pytest

from pricing.contract import Band, Contract, Tier
from pricing.tiers import band_shares
from tests.bill_stories import DAY, HOUR, MARCH, Stay, bills, lines, totals

BANDS = (Band(Fraction(10), Fraction("3.60")), Band(Fraction(50), Fraction(3)), Band(None, Fraction("2.40")))


def under(*tiers: Tier, discount: str = "0") -> Contract:
    return Contract("acct-1", tiers=tiers, discount=Fraction(discount))


@pytest.mark.parametrize(
    ("hours", "charge"),
    [(10, "36.00"), (11, "39.00"), (50, "156.00"), (51, "158.40"), (60, "180.00")],
)
def test_each_band_prices_what_lies_inside_it(hours: int, charge: str) -> None:
    contract = under(Tier("gpu.test", "graduated", "card_hours", BANDS))
    [bill] = bills([Stay(MARCH, MARCH + hours * HOUR)], contract)
    assert totals(bill)["charges"] == charge


@pytest.mark.parametrize(("seconds", "charge"), [(50 * HOUR, "150.00"), (50 * HOUR + 1, "120.00"), (HOUR, "3.60")])
def test_volume_prices_all_by_the_band_reached_and_the_bound_is_still_the_lower(seconds: int, charge: str) -> None:
    contract = under(Tier("gpu.test", "volume", "card_hours", BANDS))
    [bill] = bills([Stay(MARCH, MARCH + seconds)], contract)
    assert totals(bill)["charges"] == charge


def test_beyond_a_last_band_with_a_bound_the_plan_price_holds() -> None:
    tier = Tier("gpu.test", "graduated", "card_hours", (Band(Fraction(10), Fraction(1)),))
    [bill] = bills([Stay(MARCH, MARCH + 12 * HOUR)], under(tier))
    assert totals(bill)["charges"] == "17.20"  # 10 at 1.00, 2 at 3.60
    by_volume = Tier("gpu.test", "volume", "card_hours", (Band(Fraction(10), Fraction(1)),))
    [bill] = bills([Stay(MARCH, MARCH + 12 * HOUR)], under(by_volume))
    assert totals(bill)["charges"] == "43.20"


def test_spend_is_measured_over_all_skus_at_list_prices() -> None:
    tier = Tier("*", "graduated", "spend", (Band(Fraction(20)), Band(None, discount=Fraction("0.5"))))
    stays = [
        Stay(MARCH, MARCH + 10 * HOUR, sku="gpu.a", price="3"),
        Stay(MARCH, MARCH + 10 * HOUR, sku="gpu.b", price="1"),
    ]
    [bill] = bills(stays, under(tier))
    # 40.00 of spend, the half beyond 20.00 at half price: a quarter off every line, whichever came first
    assert lines(bill, "sku", "list", "discounts", "charge") == [
        ("gpu.a", "30.00", {"tier": "7.50"}, "22.50"),
        ("gpu.b", "10.00", {"tier": "2.50"}, "7.50"),
    ]


def test_tiers_follow_each_other_and_the_contract_discount_comes_after() -> None:
    price = Tier("gpu.*", "graduated", "card_hours", (Band(Fraction(5)), Band(None, Fraction(2))))
    off = Tier("gpu.test", "graduated", "spend", (Band(Fraction(18)), Band(None, discount=Fraction("0.10"))))
    [bill] = bills([Stay(MARCH, MARCH + 10 * HOUR)], under(price, off, discount="0.50"))
    # 36.00 -> half of the hours at 2.00: 28.00 -> 10 % off half of the spend: 26.60 -> half
    assert lines(bill, "list", "discounts", "charge") == [("36.00", {"tier": "9.40", "contract": "13.30"}, "13.30")]
    [bill] = bills([Stay(MARCH, MARCH + 10 * HOUR)], under(off, price, discount="0.50"))
    # the later tier's price replaces what the discount left, in its own half only: 34.20 -> 17.10 + 10.00
    assert lines(bill, "list", "discounts", "charge") == [("36.00", {"tier": "8.90", "contract": "13.55"}, "13.55")]


def test_padding_counts_and_excluded_time_does_not() -> None:
    stay = Stay(MARCH, MARCH + 9 * HOUR)
    broken = Stay(MARCH + 9 * HOUR, MARCH + 20 * HOUR, kind="failure", rental=MARCH)
    contract = under(Tier("gpu.test", "graduated", "card_hours", (Band(Fraction(9)), Band(None, Fraction(1)))))
    [bill] = bills([stay, broken], contract, stay.padding(HOUR))
    assert lines(bill, "quantity", "padding", "list", "charge") == [(9 * HOUR, HOUR, "36.00", "33.40")]


def test_another_sku_keeps_its_price() -> None:
    contract = under(Tier("gpu.a*", "graduated", "card_hours", (Band(None, Fraction(1)),)))
    [bill] = bills([Stay(MARCH, MARCH + DAY, sku="gpu.a1"), Stay(MARCH, MARCH + DAY, sku="gpu.b1")], contract)
    assert lines(bill, "sku", "charge") == [("gpu.a1", "24.00"), ("gpu.b1", "86.40")]


def test_nothing_measured_is_the_first_band() -> None:
    tier = Tier("*", "graduated", "spend", (Band(Fraction(10), discount=Fraction("0.1")), Band(None)))
    assert band_shares(tier, Fraction(0)) == [(tier.bands[0], Fraction(1))]
