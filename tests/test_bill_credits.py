"""Stories of credits: validity, scope, order, windows and lapse (R19)."""

from dataclasses import replace
from fractions import Fraction

import pytest

from core.calendar import calendar
from pricing.contract import Contract, Credit
from pricing.credits import in_order, opening_balances
from pricing.usage import Pack
from tests.bill_stories import DAY, HOUR, MARCH, ZONE, Stay, at, bills, credit, lines, totals

APRIL = at("2026-04-01")
NOON = MARCH + DAY // 2


def granting(*credits: Credit) -> Contract:
    return Contract("acct-1", credits=credits)


def uses(bill_json: dict[str, list[dict[str, str]]]) -> list[tuple[str, str, str, str]]:
    return [(use["id"], use["applied"], use["left"], use["lapsed"]) for use in bill_json["credits"]]


def test_a_trial_credit_pays_to_its_last_cent_and_no_second_more() -> None:
    [bill] = bills([Stay(MARCH, MARCH + 2 * HOUR, price="10")], granting(credit("T", "10.00")))
    assert [totals(bill)[name] for name in ("charges", "credits", "due")] == ["20.00", "10.00", "10.00"]
    assert uses(bill.to_json()) == [("T", "10.00", "0.00", "0.00")]


def test_a_credit_pays_only_for_usage_before_it_expires_and_the_rest_lapses() -> None:
    grant = credit("T", "10.00", "2026-01-01", "2026-04-01")
    march, april = bills([Stay(APRIL - HOUR, APRIL + HOUR)], granting(grant))
    assert uses(march.to_json()) == [("T", "3.60", "0.00", "6.40")]
    assert (totals(march)["due"], totals(april)["due"], april.credits) == ("0.00", "3.60", ())


def test_nothing_has_lapsed_before_the_instant_of_as_of() -> None:
    grant = replace(credit("T", "10.00"), expires=NOON)
    before, after = (
        bills([Stay(MARCH, MARCH + HOUR)], granting(grant), as_of=instant)[0] for instant in (NOON - 1, NOON)
    )
    assert uses(before.to_json()) == [("T", "3.60", "6.40", "0.00")]
    assert uses(after.to_json()) == [("T", "3.60", "0.00", "6.40")]


def test_the_month_is_cut_where_a_credit_begins_and_a_line_split_by_largest_remainder() -> None:
    grant = replace(credit("T", "10.00"), since=MARCH + 1)
    # two seconds are half a cent, so one; their tie goes to the earlier window, which no credit covers
    [bill] = bills([Stay(MARCH, MARCH + 2, price="9")], granting(grant))
    assert lines(bill, "charge", "credits") == [("0.01", {})]
    [bill] = bills([Stay(MARCH, MARCH + 3, price="9")], granting(grant))
    assert lines(bill, "charge", "credits") == [("0.01", {"T": "0.01"})]


def test_the_oldest_usage_is_paid_first_then_packs_then_by_name() -> None:
    pack = Pack(NOON, DAY, Fraction(24))
    stays = [
        Stay(MARCH, MARCH + HOUR, sku="gpu.z"),
        Stay(NOON, NOON + HOUR, sku="gpu.a"),
        Stay(NOON, NOON + HOUR, sku="gpu.b", plan="pack_day", pack=pack),
    ]
    later = replace(credit("L", "0.10"), since=NOON)
    contract = granting(credit("V", "30.00"), later)
    [bill] = bills(stays, contract, stays[2].charged_pack())
    assert lines(bill, "sku", "charge", "credits") == [
        ("gpu.b", "24.00", {"L": "0.10", "V": "23.90"}),
        ("gpu.a", "3.60", {"V": "2.50"}),
        ("gpu.z", "3.60", {"V": "3.60"}),
    ]


def test_the_total_order() -> None:
    grants = [
        credit("everything", "1"),
        credit("pattern", "1", "2026-01-01", "2027-01-01", "gpu.*"),
        credit("longer", "1", "2026-01-01", "2027-01-01", "gpu.a*"),
        credit("two", "1", "2026-01-01", "2027-01-01", "gpu.a", "gpu.b"),
        credit("one-b", "1", "2026-01-01", "2027-01-01", "gpu.a"),
        credit("one-a", "1", "2026-01-01", "2027-01-01", "gpu.a"),
        credit("older", "1", "2025-01-01", "2027-01-01", "gpu.a"),
        credit("smaller", "0.5", "2026-01-01", "2027-01-01", "gpu.a"),
        credit("sooner", "9", "2026-01-01", "2026-12-01", "gpu.a"),
        credit("star", "0.1", "2026-01-01", "2027-01-01", "*"),
    ]
    assert [grant.id for grant in in_order(grants, opening_balances(grants, 2))] == [
        "sooner", "smaller", "older", "one-a", "one-b", "two", "longer", "pattern", "star", "everything",
    ]  # fmt: skip


def test_the_balance_that_counts_is_that_at_the_first_second_of_the_month() -> None:
    big = credit("big", "9.00", "2026-01-01", "2027-01-01")
    narrow = credit("small", "8.00", "2026-03-15", "2027-01-01")
    march, april = bills([Stay(MARCH, MARCH + HOUR), Stay(APRIL, APRIL + HOUR)], granting(big, narrow))
    assert uses(march.to_json()) == [("small", "0.00", "8.00", "0.00"), ("big", "3.60", "5.40", "0.00")]
    assert uses(april.to_json()) == [("big", "3.60", "1.80", "0.00"), ("small", "0.00", "8.00", "0.00")]


def test_scope_is_exact_names_and_patterns() -> None:
    stays = [Stay(MARCH, MARCH + HOUR, sku=sku) for sku in ("gpu.a1", "gpu.a2", "cpu.b")]
    exact, pattern = (credit(sku, "99", "2026-01-01", "2027-01-01", sku) for sku in ("gpu.a1", "gpu.*"))
    [bill] = bills(stays, granting(pattern, exact))
    assert lines(bill, "sku", "credits") == [
        ("cpu.b", {}), ("gpu.a1", {"gpu.a1": "3.60"}), ("gpu.a2", {"gpu.*": "3.60"}),
    ]  # fmt: skip


def test_a_grant_neither_pays_nor_cuts_a_month_invoiced_before_it_was_recorded() -> None:
    april_number = calendar(ZONE).month_of(APRIL)
    late = replace(credit("L", "99.00", "2026-03-15"), first_month=april_number)
    stays = [Stay(MARCH, MARCH + 20 * DAY), Stay(APRIL, APRIL + HOUR)]
    march, april = bills(stays, granting(late))
    assert (uses(march.to_json()), totals(march)["credits"]) == ([], "0.00")
    assert len(march.rates.packs.windows.starts) == 1
    assert uses(april.to_json()) == [("L", "3.60", "95.40", "0.00")]


def test_a_fraction_of_a_cent_is_never_paid() -> None:
    [bill] = bills([Stay(MARCH, MARCH + HOUR)], granting(credit("V", "1.005")))
    assert uses(bill.to_json()) == [("V", "1.00", "0.00", "0.00")]


def test_two_grants_of_one_id_are_a_bug() -> None:
    with pytest.raises(ValueError, match="two credits"):
        bills([Stay(MARCH, MARCH + HOUR)], granting(credit("V", "1"), credit("V", "2")))
