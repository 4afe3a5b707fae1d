"""The public openb trace of a production cluster, imported into the ledger, against its control totals."""

import csv
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest

from invoices.draft import bills_json
from metering.importers import events_from_table
from metering.ingest import Ingested, Rows, ingest, lines_of
from metering.mappings import mapping_for
from metering.recorder import Recorder
from tests.conftest import _made as made
from tests.ledger_kit import Books, Json, opened, terms_of

TRACE = Path(__file__).parents[2] / "shared" / "traces" / "openb_pod_list_default.csv"
PLANS = {"on_demand": 1, "by_minute": 60, "by_hour": 3600}
PODS = 6_203
CARD_SECONDS = 214_603_958
BY_MONTH = {
    "2026-01": 6_049_758,
    "2026-02": 17_249_838,
    "2026-03": 30_060_613,
    "2026-04": 53_595_793,
    "2026-05": 107_647_956,
}
BOOK: Json = {
    "currency": "CNY",
    "time_zone": "Asia/Shanghai",
    "skus": {"gpu.a100-80g": {}},
    "plans": {plan: {"unit_s": unit} for plan, unit in PLANS.items()},
    "prices": [
        {"sku": "gpu.a100-80g", "plan": plan, "per_card_hour": "1.00", "from": "2025-01-01T00:00:00+08:00"}
        for plan in PLANS
    ],
}
CONTRACTS: list[Json] = [{"account": plan, "long_term": {}} for plan in PLANS]
LATE = 1_785_000_000  # in July, after the last pod

pytestmark = pytest.mark.skipif(not TRACE.exists(), reason="the public traces are not beside the project")


@pytest.fixture(scope="module")
def answer(server_url: str, template_url: str) -> Iterator[dict[str, list[Json]]]:
    """The bills of the trace on each plan, an account a plan, from one database."""
    with made(server_url, template_url) as url, opened(url) as books:
        books.fresh(terms_of(BOOK, *CONTRACTS))
        for plan in PLANS:
            recorded = imported(url, plan)
            assert recorded.accepted == recorded.received == 2 * PODS
        again = imported(url, "on_demand")
        assert (again.accepted, again.duplicate, again.rejected) == (0, 2 * PODS, 0)
        yield bills_by_plan(books)


def imported(url: str, plan: str) -> Ingested:
    mapping = mapping_for(
        "openb",
        {"source": f"openb/{plan}", "instance": {"column": "name", "prefix": f"{plan}-"}},
        {"account": plan, "plan": plan},
    )
    done = Ingested("trace")
    with TRACE.open("rb") as table, closing(Recorder(url)) as recorder:
        ingest(recorder, "import:trace", lines_of(events_from_table(table, mapping, "trace"), Rows()), done)
    return done


def bills_by_plan(books: Books) -> dict[str, list[Json]]:
    found = bills_json(books.db, books.names, LATE, None, None)
    assert found["rejects"] == found["anomalies"] == []
    return {plan: [bill for bill in found["bills"] if bill["account"] == plan] for plan in PLANS}


def total(bills: list[Json], name: str) -> int:
    return sum(bill["card_seconds"][name] for bill in bills)


def test_card_seconds_by_month(answer: dict[str, list[Json]]) -> None:
    for bills in answer.values():
        assert {bill["month"]: bill["card_seconds"]["billable"] for bill in bills} == BY_MONTH
        assert total(bills, "allocated") == total(bills, "billable") == CARD_SECONDS


def test_at_one_yuan_a_card_hour(answer: dict[str, list[Json]]) -> None:
    bills = answer["on_demand"]
    assert [len(bill["lines"]) for bill in bills] == [1] * len(BY_MONTH)
    assert sum(Decimal(bill["totals"]["list"]) for bill in bills) == Decimal("59612.21")


def test_whole_minutes_and_hours_are_rounded_up_for_each_card(answer: dict[str, list[Json]]) -> None:
    minutes, hours = answer["by_minute"], answer["by_hour"]
    assert total(minutes, "billable") + total(minutes, "padding") == 60 * 3_579_835
    assert total(hours, "billable") + total(hours, "padding") == 3600 * 64_601


def test_who_ran_thirty_days_earns_a_voucher(answer: dict[str, list[Json]]) -> None:
    """Of the 25 pods that ran for thirty days two held no card: they cost nothing and earn nothing."""
    with TRACE.open(newline="") as table:
        ran = [row for row in csv.DictReader(table) if row["scheduled_time"]]
    long = [row for row in ran if int(row["deletion_time"]) - int(row["scheduled_time"]) >= 30 * 86_400]
    paying = {row["name"] for row in long if row["num_gpu"] != "0"}
    assert (len(long), len(paying)) == (25, 23)
    for plan, bills in answer.items():
        assert {v["instance"] for bill in bills for v in bill["vouchers"]} == {f"{plan}-{name}" for name in paying}
