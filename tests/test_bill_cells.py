"""Stories of cells: a rounded line split once over day, instance and project (R17)."""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import pytest

from pricing.bill import Bill
from pricing.cells import EXACT_BITS, LineCell, split_bill
from pricing.contract import Cap, Contract, Credit, LongTerm
from pricing.usage import Pack, Rental, Usage
from tests.bill_stories import DAY, HOUR, MARCH, Stay, bills, credit, rows_of


def cells(bill: Bill, rows: list[Usage]) -> list[tuple[int, str, str, str, str, str]]:
    first_day = min(row.day for row in rows)
    return [_shown(cell, first_day) for split in split_bill(bill, rows).values() for cell in split]


def _shown(cell: LineCell, first_day: int) -> tuple[int, str, str, str, str, str]:
    place, credited = cell.place, sum(cell.credits.values(), Decimal("0.00"))
    return place.day - first_day, place.instance, place.project, str(cell.list), str(cell.charge), str(credited)


def told(stays: list[Stay], contract: Contract, *extra: Usage, rentals: list[Rental]) -> tuple[Bill, list[Usage]]:
    [bill] = bills(stays, contract, *extra, rentals=rentals)
    return bill, [*rows_of(stays, contract.credits), *extra]


def plain(*credits: Credit) -> Contract:
    return Contract("acct-1", credits=credits)


def test_the_cent_that_is_left_goes_to_the_earlier_day_then_instance_then_project() -> None:
    one = Stay(MARCH, MARCH + 1, price="12")  # a third of a cent
    stays = [replace(one, start=MARCH + DAY, end=MARCH + DAY + 1), replace(one, instance="h", project="q"), one]
    bill, rows = told(stays, plain(), rentals=[])
    assert cells(bill, rows) == [
        (0, "h", "q", "0.01", "0.01", "0.00"),
        (0, "i", "p", "0.00", "0.00", "0.00"),
        (1, "i", "p", "0.00", "0.00", "0.00"),
    ]


def test_a_cap_takes_from_its_own_day_alone() -> None:
    stays = [Stay(MARCH, MARCH + DAY + 2 * HOUR)]
    bill, rows = told(stays, Contract("acct-1", caps=(Cap("instance_day", Fraction(10)),)), rentals=[])
    assert cells(bill, rows) == [
        (0, "i", "p", "86.40", "10.00", "0.00"),
        (1, "i", "p", "7.20", "7.20", "0.00"),
    ]


def test_a_netted_rebate_takes_from_its_own_rental_alone() -> None:
    stays = [Stay(MARCH, MARCH + DAY), Stay(MARCH, MARCH + HOUR, instance="j")]
    contract = Contract("acct-1", long_term=LongTerm(1, Fraction("0.50"), None, "netted"))
    bill, rows = told(stays, contract, rentals=[Rental("i", MARCH, MARCH + DAY)])
    assert cells(bill, rows) == [
        (0, "i", "p", "86.40", "43.20", "0.00"),
        (0, "j", "p", "3.60", "3.60", "0.00"),
    ]


def test_several_credits_never_pay_a_cell_more_than_it_costs() -> None:
    stays = [Stay(MARCH, MARCH + 10, instance=f"i{n}") for n in range(4)]  # a cent each
    bill, rows = told(stays, plain(credit("A", "0.02"), credit("B", "0.01")), rentals=[])
    assert [cell[5] for cell in cells(bill, rows)] == ["0.01", "0.01", "0.01", "0.00"]


def test_pack_lines_have_cells_too() -> None:
    pack = Pack(MARCH, 2 * DAY, Fraction(48))
    run = Stay(MARCH, MARCH + HOUR, cards=2, plan="pack_day", pack=pack)
    down = replace(run, start=run.end, end=run.end + HOUR, kind="failure", rental=MARCH)
    bill, rows = told([run, down], plain(), run.charged_pack(), down.refund(2), rentals=[])
    assert cells(bill, rows) == [
        (0, "i", "p", "96.00", "96.00", "0.00"),
        (0, "i", "p", "-2.00", "-2.00", "0.00"),
        (0, "i", "p", "-48.00", "-48.00", "0.00"),
    ]


def test_weights_of_many_unlike_denominators_still_add_up() -> None:
    stays = [Stay(MARCH, MARCH + 3600 + 7 * n, instance=f"i{n:03d}", price="9") for n in range(200)]
    twin = [replace(stay, sku="gpu.b", end=stay.end - n) for n, stay in enumerate(stays)]
    contract = Contract("acct-1", caps=(Cap("instance_day", Fraction(1)),))
    bill, rows = told([*stays, *twin], contract, rentals=[])
    for line, split in zip(bill.lines, split_bill(bill, rows).values(), strict=True):
        assert sum(cell.charge for cell in split) == line.charge
    assert EXACT_BITS < 200 * 12


def test_rows_that_do_not_foot_to_the_bill_are_a_bug() -> None:
    bill, rows = told([Stay(MARCH, MARCH + HOUR)], plain(), rentals=[])
    with pytest.raises(ValueError, match="do not foot"):
        split_bill(bill, [replace(rows[0], quantity=1)])
    with pytest.raises(ValueError, match="same lines"):
        split_bill(bill, [])
