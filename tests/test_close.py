"""Closing a month, and what late facts do to months that are closed (R22, R23)."""

import threading
from decimal import Decimal

import psycopg
import pytest

from invoices.close import Closed, CloseRefused
from tests.books_kit import BOOK, amounts, books, contract_of, event

START, STOP = "instance.started", "instance.stopped"


def test_a_month_is_closed_once_with_a_gapless_number(database_url: str) -> None:
    with books(database_url) as ledger:
        ledger.record(event("2026-03-01 00:00", START), event("2026-03-01 01:00", STOP))
        first = ledger.close("2026-03", "2026-04-01 00:00")
        again = ledger.close("2026-03", "2026-04-02 00:00")
        assert [each["number"] for each in first.issued] == ["INV-2026-000001"]
        assert amounts(first.issued[0]) == ["3.60", "3.60", "0.00", "3.60"]
        assert (again.issued, again.known) == ([], 1)
        assert ledger.verify() == []


def test_a_month_that_has_not_ended_is_refused(database_url: str) -> None:
    with books(database_url) as ledger:
        ledger.record(event("2026-03-01 00:00", START))
        with pytest.raises(CloseRefused, match=r"2026-03 cannot be closed: it ends at 2026-04-01T00:00:00\+08:00"):
            ledger.close("2026-03", "2026-03-31 23:59")
        assert ledger.invoices() == []


def test_an_empty_ledger_is_not_a_zero_bill(database_url: str) -> None:
    with books(database_url) as ledger, pytest.raises(CloseRefused, match="no event was ever recorded"):
        ledger.close("2026-03", "2026-04-01 00:00")


def test_what_runs_is_billed_to_the_months_end_and_goes_on_after_it(database_url: str) -> None:
    with books(database_url) as ledger:
        ledger.record(event("2026-03-31 22:00", START))
        march = ledger.close("2026-03", "2026-04-01 00:00").issued
        ledger.record(event("2026-04-01 01:00", STOP))
        april = ledger.close("2026-04", "2026-05-01 00:00").issued
        assert [amounts(each)[-1] for each in (*march, *april)] == ["7.20", "3.60"]
        assert april[0]["corrections"] == []
        assert ledger.verify() == []


def test_a_watched_instance_is_billed_to_its_proof_and_told(database_url: str) -> None:
    with books(database_url) as ledger:
        ledger.record(event("2026-03-31 22:00", START), event("2026-03-31 22:01", "instance.heartbeat"))
        closed = ledger.close("2026-03", "2026-04-01 00:00")
        assert [each.instance for each in closed.unproven] == ["i"]
        assert closed.issued[0]["card_seconds"]["billable"] == 60


def test_a_late_failure_comes_back_on_the_next_invoice(database_url: str) -> None:
    with books(database_url) as ledger:
        ledger.record(event("2026-03-01 00:00", START), event("2026-03-01 10:00", STOP))
        ledger.record(event("2026-04-01 00:00", START, "j"), event("2026-04-01 01:00", STOP, "j"))
        march = ledger.close("2026-03", "2026-04-01 00:00").issued[0]
        before = ledger.db.execute("SELECT document FROM invoice").fetchall()
        ledger.record(event("2026-03-01 02:00", "failure.started", data={"incident": "f"}),
                      event("2026-03-01 03:00", "failure.ended", data={"incident": "f"}))  # fmt: skip
        april = ledger.close("2026-04", "2026-05-01 00:00").issued[0]
        assert amounts(march)[-1] == "36.00"
        assert [(c["corrects"], c["list"], c["amount"]) for c in april["corrections"]] == [
            ({"number": march["number"], "line": 1}, "-3.60", "-3.60")
        ]
        assert amounts(april) == ["0.00", "0.00", "0.00", "0.00"]
        assert ledger.db.execute("SELECT document FROM invoice ORDER BY id LIMIT 1").fetchall() == before
        assert ledger.verify() == []


def test_a_negative_balance_is_carried_forward_and_used_up(database_url: str) -> None:
    with books(database_url) as ledger:
        ledger.record(event("2026-03-01 00:00", START), event("2026-03-01 10:00", STOP))
        ledger.close("2026-03", "2026-04-01 00:00")
        ledger.record(event("2026-03-01 00:00", "failure.started", data={"incident": "f"}))
        ledger.record(event("2026-03-01 10:00", "failure.ended", data={"incident": "f"}))
        april = ledger.close("2026-04", "2026-05-01 00:00").issued[0]
        ledger.record(event("2026-05-01 00:00", START, "j"), event("2026-05-01 20:00", STOP, "j"))
        may = ledger.close("2026-05", "2026-06-01 00:00").issued[0]
        assert (april["totals"]["due"], april["payable"], april["carried_forward"]["to_next"]) == (
            "-36.00",
            "0.00",
            "-36.00",
        )
        assert (may["totals"]["due"], may["payable"]) == ("72.00", "36.00")


def test_usage_found_for_a_closed_month_without_an_invoice_has_nothing_to_name(database_url: str) -> None:
    with books(database_url) as ledger:
        ledger.record(event("2026-03-01 00:00", START, "other", {"account": "other"}))
        ledger.close("2026-03", "2026-04-01 00:00")
        ledger.record(event("2026-03-05 00:00", START), event("2026-03-05 01:00", STOP))
        assert ledger.close("2026-03", "2026-04-02 00:00").issued == []
        april = {each["account"]: each for each in ledger.close("2026-04", "2026-05-01 00:00").issued}
        assert [(c["corrects"], c["month"], c["amount"]) for c in april["acct"]["corrections"]] == [
            ({"number": None, "line": None}, "2026-03", "3.60")
        ]


def test_a_credit_that_a_corrected_month_no_longer_uses_flows_on(database_url: str) -> None:
    credit = {"id": "V", "kind": "voucher", "amount": "10.00", "from": "2026-01-01T00:00:00+08:00",
              "expires": "2027-01-01T00:00:00+08:00"}  # fmt: skip
    with books(database_url, contract=contract_of(credits=[credit])) as ledger:
        ledger.record(event("2026-03-01 00:00", START), event("2026-03-01 02:00", STOP))
        march = ledger.close("2026-03", "2026-04-01 00:00").issued[0]
        ledger.record(event("2026-03-01 00:00", "failure.started", data={"incident": "f"}))
        ledger.record(event("2026-03-01 01:00", "failure.ended", data={"incident": "f"}))
        ledger.record(event("2026-04-01 00:00", START, "j"), event("2026-04-01 02:00", STOP, "j"))
        april = ledger.close("2026-04", "2026-05-01 00:00").issued[0]
        assert amounts(march) == ["7.20", "7.20", "7.20", "0.00"]
        # March used 3.60 too much, so 6.40 are left for April's 7.20.
        assert [(c["month"], c["id"], c["applied"]) for c in april["credit_corrections"]] == [("2026-03", "V", "-3.60")]
        assert amounts(april) == ["3.60", "3.60", "2.80", "0.80"]


def test_a_rebate_voucher_is_issued_and_pays_from_the_next_month(database_url: str) -> None:
    with books(database_url, contract=contract_of(long_term={"rebate": "0.15"})) as ledger:
        ledger.record(event("2026-03-01 00:00", START), event("2026-04-05 00:00", STOP))
        march = ledger.close("2026-03", "2026-04-05 00:00").issued[0]
        april = ledger.close("2026-04", "2026-05-01 00:00").issued[0]
        # 744 h x 3.60 = 2678.40, of which 15 % are 401.76; April's 96 h cost 345.60 and are paid by it.
        assert [voucher["amount"] for voucher in march["vouchers"]] == ["401.76"]
        assert amounts(april) == ["345.60", "345.60", "345.60", "0.00"]
        assert [voucher["amount"] for voucher in april["vouchers"]] == ["51.84"]
        assert ledger.verify() == []


def test_a_voucher_that_was_too_large_is_reduced_as_far_as_it_is_unspent(database_url: str) -> None:
    with books(database_url, contract=contract_of(long_term={"rebate": "0.15"})) as ledger:
        ledger.record(event("2026-03-01 00:00", START), event("2026-04-01 00:00", STOP))
        ledger.close("2026-03", "2026-04-01 00:00")
        ledger.record(event("2026-03-02 00:00", "failure.started", data={"incident": "f"}))
        ledger.record(event("2026-03-03 00:00", "failure.ended", data={"incident": "f"}))
        april = ledger.close("2026-04", "2026-05-01 00:00").issued[0]
        ledger.record(event("2026-05-01 00:00", START, "j"), event("2026-05-31 00:00", STOP, "j"))
        may = ledger.close("2026-05", "2026-06-01 00:00").issued[0]
        # A day of failure takes 86.40 off March and 12.96 off its voucher: 388.80 are left.
        assert [voucher["amount"] for voucher in april["voucher_corrections"]] == ["-12.96"]
        assert may["totals"]["credits"] == "388.80"


def test_an_account_with_open_questions_is_held_until_they_are_accepted(database_url: str) -> None:
    with books(database_url) as ledger:
        ledger.record(event("2026-03-01 00:00", START), event("2026-03-01 01:00", STOP))
        ledger.record(event("2026-03-02 00:00", START, "k", {"sku": "gpu.unknown"}))
        held = ledger.close("2026-03", "2026-04-01 00:00")
        later = ledger.close("2026-03", "2026-04-02 00:00", accept_open=True)
        assert (held.issued, [q["kind"] for q in held.held["acct"]]) == ([], ["no_price"])
        assert [q["kind"] for q in later.issued[0]["pins"]["accepted_open"]] == ["no_price"]
        assert amounts(later.issued[0])[-1] == "3.60"


def test_a_closed_month_keeps_its_prices_when_a_later_price_book_reaches_back(database_url: str) -> None:
    with books(database_url) as ledger:
        ledger.record(event("2026-03-01 00:00", START), event("2026-03-01 01:00", STOP))
        ledger.close("2026-03", "2026-04-01 00:00")
        ledger.apply(BOOK.replace('"3.60"', '"7.20"'))
        ledger.record(event("2026-04-01 00:00", START, "j"), event("2026-04-01 01:00", STOP, "j"))
        april = ledger.close("2026-04", "2026-05-01 00:00").issued[0]
        assert april["corrections"] == []
        assert amounts(april)[-1] == "7.20"


def test_two_closes_at_once_issue_once(database_url: str) -> None:
    with books(database_url) as one, books(database_url) as other:
        for n in range(20):
            one.record(
                event("2026-03-01 00:00", START, f"i{n}", {"account": f"a{n}"}),
                event("2026-03-01 01:00", STOP, f"i{n}"),
            )
        results: list[Closed] = []
        closes = [
            threading.Thread(target=lambda b=b: results.append(b.close("2026-03", "2026-04-01 00:00")))
            for b in (one, other)
        ]
        for each in closes:
            each.start()
        for each in closes:
            each.join()
        assert sorted(len(result.issued) for result in results) == [0, 20]
        numbers = [each["number"] for each in one.invoices()]
        assert numbers == [f"INV-2026-{n:06d}" for n in range(1, 21)]


def test_a_close_that_fails_leaves_nothing(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with books(database_url) as ledger:
        ledger.record(event("2026-03-01 00:00", START), event("2026-03-01 01:00", STOP))
        monkeypatch.setattr("invoices.issue._Vouchers.settle", _lost)
        with pytest.raises(psycopg.OperationalError):
            ledger.close("2026-03", "2026-04-01 00:00")
        monkeypatch.undo()
        assert ledger.invoices() == []
        assert [each["number"] for each in ledger.close("2026-03", "2026-04-01 00:00").issued] == ["INV-2026-000001"]


def test_invoices_and_entries_refuse_to_change(database_url: str) -> None:
    with books(database_url) as ledger:
        ledger.record(event("2026-03-01 00:00", START), event("2026-03-01 01:00", STOP))
        ledger.close("2026-03", "2026-04-01 00:00")
        owner = psycopg.connect(database_url, autocommit=True)
        for table in ("event", "entry", "invoice", "batch", "terms_version"):
            with pytest.raises(psycopg.errors.RaiseException, match=f"table {table} only grows"):
                owner.execute(psycopg.sql.SQL("DELETE FROM {}").format(psycopg.sql.Identifier(table)))
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                ledger.db.execute(psycopg.sql.SQL("DELETE FROM {}").format(psycopg.sql.Identifier(table)))
        owner.close()


def test_sums_of_corrected_invoices_are_the_bill_that_knew_in_time(database_url: str) -> None:
    facts = [event("2026-03-01 00:00", START), event("2026-03-20 12:34", STOP)]
    late = [event("2026-03-03 01:02", "failure.started", data={"incident": "f"}),
            event("2026-03-03 05:43", "failure.ended", data={"incident": "f"})]  # fmt: skip
    with books(database_url, contract=contract_of(discount="0.07")) as ledger:
        ledger.record(*facts)
        ledger.close("2026-03", "2026-04-01 00:00")
        ledger.record(*late)
        ledger.close("2026-04", "2026-05-01 00:00")
        (bill,) = ledger.bills("2026-05-01 00:00")
        for name, amount in bill["totals"].items():
            assert sum(Decimal(each["totals"][name]) for each in ledger.invoices()) == Decimal(amount)


def _lost(*_: object) -> None:
    raise psycopg.OperationalError("the connection is lost")
