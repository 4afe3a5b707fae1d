"""The second bookkeeper against the worked cases, and what must hold of any bill it writes."""

import datetime as dt
import json
import pathlib
from typing import Any

import pytest
import yaml

from tests.bookkeeper import rate

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
    t0 = dt.datetime.fromisoformat(case.get("t0", DOCUMENT["t0"]))
    book = merged(DOCUMENT["books"][case.get("book", "standard")], case.get("book_changes"))
    contract = {"account": DOCUMENT["defaults"]["data"]["account"], **case.get("contract", {})}
    as_of = dt.datetime.fromisoformat(instant(t0, case["as_of"])) if "as_of" in case else None
    return rate(events_of(case, t0), book, contract, as_of)


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
