"""Stories of tax: inside the price or on top, by plan and SKU, on cash only (R18)."""

from fractions import Fraction

from pricing.book import Plan, Sku, Tax
from pricing.contract import Contract
from tests.bill_stories import HOUR, MARCH, Stay, bills, book, credit, totals

ON_TOP = Tax(Fraction(10, 100), included=False)


def test_tax_is_inside_the_price_and_after_the_discount() -> None:
    [bill] = bills([Stay(MARCH, MARCH + 50 * HOUR, price="2")], Contract("acct-1", discount=Fraction("0.12")))
    assert totals(bill) == {
        "list": "100.00", "discounts": "12.00", "charges": "88.00", "credits": "0.00", "due": "88.00",
        "net": "83.02", "tax": "4.98",
    }  # fmt: skip


def test_what_a_voucher_pays_is_not_taxed() -> None:
    contract = Contract("acct-1", discount=Fraction("0.12"), credits=(credit("V", "10.00"),))
    [bill] = bills([Stay(MARCH, MARCH + 50 * HOUR, price="2")], contract)
    assert totals(bill) == {
        "list": "100.00", "discounts": "12.00", "charges": "88.00", "credits": "10.00", "due": "78.00",
        "net": "73.58", "tax": "4.42",
    }  # fmt: skip


def test_tax_on_top_is_on_the_cash_part_and_added() -> None:
    stay = Stay(MARCH, MARCH + 10 * HOUR, price="2")
    [bill] = bills([stay], Contract("acct-1", credits=(credit("V", "5.05"),)), terms=book(tax=ON_TOP))
    assert totals(bill) == {
        "list": "20.00", "discounts": "0.00", "charges": "20.00", "credits": "5.05", "due": "16.45",
        "net": "14.95", "tax": "1.50",
    }  # fmt: skip


def test_the_plan_speaks_before_the_sku_before_the_book_and_a_rate_is_rounded_once() -> None:
    third = Tax(Fraction(3, 100), included=True)
    terms = book(
        plans=[Plan("edu", tax=Tax(Fraction(0), True))], skus=[Sku("gpu.a", tax=third), Sku("gpu.b", tax=third)]
    )
    stays = [
        Stay(MARCH, MARCH + HOUR, sku="gpu.a", price="0.17"),
        Stay(MARCH, MARCH + HOUR, sku="gpu.b", price="0.17"),
        Stay(MARCH, MARCH + HOUR, sku="gpu.a", plan="edu", price="1.00"),
        Stay(MARCH, MARCH + HOUR, price="1.06"),
    ]
    [bill] = bills(stays, terms=terms)
    assert bill.to_json()["taxes"] == [
        {"rate": "0", "included": True, "cash": "1.00", "net": "1.00", "tax": "0.00"},
        {"rate": "0.03", "included": True, "cash": "0.34", "net": "0.33", "tax": "0.01"},  # line by line: 0.00
        {"rate": "0.06", "included": True, "cash": "1.06", "net": "1.00", "tax": "0.06"},
    ]


def test_one_bill_can_have_both_kinds() -> None:
    terms = book(skus=[Sku("gpu.a", tax=ON_TOP)])
    [bill] = bills(
        [Stay(MARCH, MARCH + HOUR, sku="gpu.a", price="1"), Stay(MARCH, MARCH + HOUR, price="1.06")], terms=terms
    )
    assert [totals(bill)[name] for name in ("charges", "due", "net", "tax")] == ["2.06", "2.16", "2.00", "0.16"]
