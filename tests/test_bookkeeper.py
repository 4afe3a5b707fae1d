"""The second bookkeeper against the worked cases, and what must hold of any bill it writes."""

import datetime as dt
import json
import pathlib
from decimal import Decimal
from typing import Any

import pytest
import yaml
from hypothesis import given, settings

from tests.bookkeeper import CLASSES, rate
from tests.streams import Stream, streams

Json = dict[str, Any]
GOLDEN = pathlib.Path(__file__).parent.parent.parent / "shared" / "scenarios" / "golden.yaml"
DOCUMENT: Json = yaml.safe_load(GOLDEN.read_text()) if GOLDEN.exists() else {"cases": []}


def instant(t0: dt.datetime, when: float | str) -> str:
    if isinstance(when, str):
        return when
    return (t0 + dt.timedelta(seconds=when)).astimezone(dt.UTC).isoformat().replace("+00:00", "Z")


def events_of(case: Json, t0: dt.datetime) -> list[dict[str, Any] | str | bytes]:
    found: list[dict[str, Any] | str | bytes] = []
    for number, row in enumerate(case["events"]):
        when, kind, instance, data, envelope = [*row, None, None][:5]
        base = dict(DOCUMENT["defaults"]["data"]) if kind == "instance.started" else {}
        event = {"specversion": "1.0", "id": f"{case['id']}-{number}", "source": "/test", "type": kind}
        event |= {"subject": instance, "time": instant(t0, when), "data": {**base, **(data or {})}, **(envelope or {})}
        found.append(json.dumps(event))
    return found


def merged(base: Json, extra: Json | None) -> Json:
    out = dict(base)
    for key, value in (extra or {}).items():
        out[key] = merged(out[key], value) if isinstance(value, dict) and isinstance(out.get(key), dict) else value
    return out


def answer_to(case: Json) -> Json:
    t0 = dt.datetime.fromisoformat(str(case.get("t0", DOCUMENT["t0"])))
    book = merged(DOCUMENT["books"][case.get("book", "standard")], case.get("book_changes"))
    contract = {"account": DOCUMENT["defaults"]["data"]["account"], **case.get("contract", {})}
    as_of = dt.datetime.fromisoformat(instant(t0, case["as_of"])) if "as_of" in case else None
    return rate(events_of(case, t0), book, contract, as_of)


def seconds_in(answer: Json) -> list[Json]:
    return [bill["card_seconds"] for bill in answer["bills"]]


def figures(bill: Json) -> Json:
    credits_of_bill = {f"credit {c['id']}": [c["applied"], c["left"]] for c in bill["credits"]}
    vouchers = [v["amount"] for v in bill["vouchers"]]
    return {**bill["card_seconds"], **bill["totals"], "vouchers": vouchers, **credits_of_bill}


@pytest.mark.skipif(not GOLDEN.exists(), reason="the worked cases are not beside the project")
@pytest.mark.parametrize("case", DOCUMENT["cases"], ids=lambda case: str(case["id"]))
def test_worked_case(case: Json) -> None:
    answer = answer_to(case)
    bills = {bill["month"]: bill for bill in answer["bills"]}

    got = {month: {key: figures(bills[month])[key] for key in want} for month, want in case["expect"].items()}
    unexpected = [b["totals"]["due"] for month, b in bills.items() if month not in case["expect"]]

    assert got == case["expect"]
    assert set(unexpected) <= {"0.00", "0"}
    assert sorted(r["reason"] for r in answer["rejects"]) == sorted(case.get("rejects", []))


# --- stories ---------------------------------------------------------------------------------------------------------

BOOK: Json = {
    "currency": "CNY",
    "time_zone": "Asia/Shanghai",
    "tax": {"rate": "0.06", "included": True},
    "skus": {"gpu.test": {}},
    "plans": {
        "on_demand": {"unit_s": 60},
        "pack_once": {"pack": "day", "renew": False, "falls_back_to": "on_demand"},
        "pack_month": {"pack": "month"},
    },
    "prices": [
        {"sku": "gpu.test", "plan": "on_demand", "per_card_hour": "3.60", "from": "2015-01-01T00:00:00Z"},
        {"sku": "gpu.test", "plan": "pack_once", "per_card_pack": "24.00", "from": "2015-01-01T00:00:00Z"},
        {"sku": "gpu.test", "plan": "pack_month", "per_card_pack": "720.00", "from": "2015-01-01T00:00:00Z"},
    ],
}
RENTED = {"account": "acct-1", "sku": "gpu.test", "cards": 1}


def told(*rows: tuple[str, str, Json]) -> list[dict[str, Any] | str | bytes]:
    """Events of instance i at Shanghai times, with ids e0, e1, ..."""
    head = {"specversion": "1.0", "source": "/test", "subject": "i"}
    return [
        {**head, "id": f"e{number}", "type": kind, "time": f"{when}+08:00", "data": data}
        for number, (when, kind, data) in enumerate(rows)
    ]


def due(answer: Json) -> dict[str, str]:
    return {bill["month"]: bill["totals"]["due"] for bill in answer["bills"]}


def test_excluded_time_of_an_earlier_months_pack_comes_back_in_its_cash_share() -> None:
    voucher = {"id": "V", "kind": "voucher", "amount": "360", "from": "2026-01-01T00:00:00Z"}
    contract = {"account": "acct-1", "credits": [{**voucher, "expires": "2027-01-01T00:00:00Z"}]}
    events = told(
        ("2026-01-31T10:00:00", "instance.started", {**RENTED, "plan": "pack_month"}),
        ("2026-02-01T00:00:00", "failure.started", {"incident": "f"}),
        ("2026-02-02T00:00:00", "failure.ended", {"incident": "f"}),
    )

    answer = rate(events, BOOK, contract)

    assert due(answer) == {"2026-01": "360.00", "2026-02": "-12.86"}  # 720 / 28 days, half of it paid in cash


def test_month_packs_are_counted_from_the_first_anchor() -> None:
    events = told(
        ("2026-01-31T10:00:00", "instance.started", {**RENTED, "plan": "pack_month"}),
        ("2026-04-30T10:00:00", "instance.stopped", {}),
    )

    months = {"2026-01": "720.00", "2026-02": "720.00", "2026-03": "720.00", "2026-04": "0.00"}
    assert due(rate(events, BOOK, None)) == months


def test_a_card_that_joins_a_pack_that_does_not_renew_is_covered_while_the_first_is_rounded_up() -> None:
    events = told(
        ("2026-03-01T00:00:00", "instance.started", {**RENTED, "plan": "pack_once"}),
        ("2026-03-01T12:00:00", "instance.resized", {"cards": 2}),
        ("2026-03-02T00:00:10", "instance.stopped", {}),
    )

    (bill,) = rate(events, BOOK, None)["bills"]

    assert bill["card_seconds"]["padding"] == 50
    assert bill["totals"]["charges"] == "48.06"


def test_a_heartbeat_in_full_opens_an_instance_that_never_ran_and_a_silence_is_unknown() -> None:
    events = told(
        ("2026-03-01T00:00:00", "instance.heartbeat", RENTED),
        ("2026-03-01T00:03:00", "instance.heartbeat", {}),
        ("2026-03-01T00:10:00", "instance.heartbeat", {}),
    )

    (bill,) = rate(events, BOOK, None, dt.datetime(2026, 3, 2, tzinfo=dt.UTC))["bills"]

    assert (bill["card_seconds"]["billable"], bill["card_seconds"]["unknown"]) == (180, 420)


def test_a_stop_withdrawn_by_a_person_never_was() -> None:
    decision = {"source": "/test", "id": "e1", "by": "ops", "why": "sent by mistake"}
    events = told(
        ("2026-03-01T00:00:00", "instance.started", RENTED),
        ("2026-03-01T01:00:00", "instance.stopped", {}),
        ("2026-03-01T02:00:00", "event.retracted", decision),
    )

    assert due(rate(events, BOOK, None)) == {"2026-03": "7.20"}


def test_a_person_says_which_of_two_bodies_stands() -> None:
    events = told(
        ("2026-03-01T00:00:00", "instance.started", RENTED),
        ("2026-03-01T01:00:00", "instance.stopped", {}),
        ("2026-03-01T04:00:00", "conflict.resolved", {}),
    )
    other = {**json.loads(json.dumps(events[1])), "time": "2026-03-01T03:00:00+08:00"}
    body = {name: other[name] for name in ("type", "subject", "time", "data")}
    decision = {"source": "/test", "id": "e1", "by": "ops", "why": "asked the host", "body": body}
    resolved = {**json.loads(json.dumps(events[2])), "data": decision}

    answer = rate([events[0], events[1], other, resolved], BOOK, None)

    assert due(answer) == {"2026-03": "10.80"}
    assert [reject["reason"] for reject in answer["rejects"]] == ["conflict"]


# --- what holds of any bill ------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(streams())
def test_every_allocated_card_second_is_in_exactly_one_class(stream: Stream) -> None:
    for seconds in seconds_in(rate(*stream)):
        assert seconds["allocated"] == sum(seconds[kind] for kind in CLASSES)
        assert all(count >= 0 for count in seconds.values())


@settings(max_examples=40, deadline=None)
@given(streams())
def test_totals_are_sums_of_lines_and_credits_never_overdrawn(stream: Stream) -> None:
    _, _, contract, _ = stream
    answer = rate(*stream)
    spent: dict[str, Decimal] = {}
    for bill in answer["bills"]:
        total = {name: Decimal(amount) for name, amount in bill["totals"].items()}
        assert total["list"] == sum(Decimal(line["list"]) for line in bill["lines"])
        assert total["charges"] == sum(Decimal(line["charge"]) for line in bill["lines"])
        assert total["credits"] == sum(Decimal(credit["applied"]) for credit in bill["credits"])
        assert total["list"] - total["discounts"] == total["charges"]
        assert total["net"] + total["tax"] == total["due"]
        for credit in bill["credits"]:
            assert Decimal(credit["left"]) >= 0
            spent[credit["id"]] = spent.get(credit["id"], Decimal(0)) + Decimal(credit["applied"])
    granted = {row["id"]: Decimal(row["amount"]) for row in (contract or {}).get("credits", [])}
    assert all(amount <= granted[name] for name, amount in spent.items())


@settings(max_examples=40, deadline=None)
@given(streams(conflicts=False))
def test_order_of_arrival_and_repetition_change_no_bill(stream: Stream) -> None:
    events, book, contract, as_of = stream

    answer = rate([*reversed(events), *events], book, contract, as_of)

    assert answer["bills"] == rate(events, book, contract, as_of)["bills"]


@settings(max_examples=10, deadline=None)
@given(streams(longest=600))
def test_stepping_over_quiet_stretches_changes_nothing(stream: Stream) -> None:
    assert rate(*stream, every_second=True) == rate(*stream)
