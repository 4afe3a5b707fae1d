"""The worked cases of ``golden/``: through the dry run, through the ledger, and past the second bookkeeper."""

import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from tests import bookkeeper
from tests.conftest import _made as made
from tests.ledger_kit import Books, Event, Json, batches, checkpoints_every, latest, opened, pure, second, terms_of

FOLDER = Path(__file__).parent / "golden"
BOOK: Json = yaml.safe_load((FOLDER / "book.yaml").read_text())
SUBJECTS = sorted(path for path in FOLDER.glob("*.yaml") if path.name != "book.yaml")
CASES = [(path.stem, case) for path in SUBJECTS for case in yaml.safe_load(path.read_text())]
START = "2026-05-01T00:00:00+08:00"
WORDS = {
    "start": "instance.started", "stop": "instance.stopped", "resize": "instance.resized", "beat": "instance.heartbeat",
    "fail": "failure.started", "mend": "failure.ended", "move": "migration.started", "moved": "migration.ended",
    "serve": "maintenance.started", "served": "maintenance.ended", "lend": "idle.started", "back": "idle.ended",
    "retract": "event.retracted", "resolve": "conflict.resolved", "judge": "incident.judged",
}  # fmt: skip
EVENT = re.compile(
    r"(?P<when>\S+)\s+(?P<word>\S+)\s+(?P<instance>[^\s{]+)\s*(?P<data>\{.*\})?"
    r"(?:\s+id=(?P<id>\S+))?(?:\s+source=(?P<source>\S+))?"
)
UNITS = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0}

everywhere = pytest.mark.parametrize("case", [pytest.param(case, id=f"{stem}: {case['case']}") for stem, case in CASES])


def after(start: str, when: str) -> datetime:
    """``1d2h3.5s`` after an instant."""
    parts = re.findall(r"([\d.]+)([dhms])", when)
    return datetime.fromisoformat(start) + timedelta(seconds=sum(float(n) * UNITS[unit] for n, unit in parts))


def events_of(case: Json) -> list[Event]:
    """The lines of a case as events, in the order in which they arrive."""
    told = (line.partition("#")[0].strip() for line in case["events"].splitlines())
    return [event_of(case, number, line) for number, line in enumerate(told) if line]


def event_of(case: Json, number: int, line: str) -> Event:
    match = EVENT.fullmatch(line)
    assert match, line
    data = yaml.safe_load(match["data"] or "{}")
    if match["word"] == "start":
        data = {"account": "acme", "sku": "gpu.x", "cards": 1, **data}
    if match["word"] in ("retract", "resolve", "judge"):
        data = {**data, "by": "a person", "why": "a look at the host"}
    instant = after(case.get("from", START), match["when"]).astimezone(UTC)
    return {
        "specversion": "1.0", "id": match["id"] or f"event-{number}", "source": match["source"] or "/host",
        "type": WORDS.get(match["word"], f"instance.{match['word']}"), "subject": match["instance"],
        "time": instant.isoformat().replace("+00:00", "Z"), "data": data,
    }  # fmt: skip


def book_of(case: Json) -> Json:
    """The price list with a case's changes; its prices come to those that are there."""
    changes = case.get("book", {})
    book = {**BOOK, **changes, "prices": BOOK["prices"] + changes.get("prices", [])}
    for part in ("skus", "plans"):
        book[part] = {**BOOK[part], **changes.get(part, {})}
    return book


def contract_of(case: Json) -> Json:
    return {"account": "acme", "discount": "0", **case.get("contract", {})}


def as_of(case: Json) -> datetime | None:
    return after(case.get("from", START), case["as_of"]) if "as_of" in case else None


def compare(case: Json, answer: Json) -> None:
    """Every bill that is expected and no other, by the figures that the case names."""
    bills = {bill["month"] if bill["account"] == "acme" else f"{bill['account']} {bill['month']}": bill
             for bill in answer["bills"]}  # fmt: skip
    got = {name: {key: figures(bills[name])[key] for key in want} for name, want in case["expect"].items()
           if name in bills}  # fmt: skip
    assert got == case["expect"]
    assert bills.keys() == case["expect"].keys()


def figures(bill: Json) -> Json:
    credits = {f"credit {use['id']}": [use["applied"], use["left"]] for use in bill["credits"]}
    vouchers = [voucher["amount"] for voucher in bill["vouchers"]]
    return {**bill["card_seconds"], **bill["totals"], **credits, "vouchers": vouchers}


@pytest.fixture(scope="module")
def books(server_url: str, template_url: str) -> Iterator[Books]:
    with made(server_url, template_url) as url, opened(url) as found:
        yield found


@everywhere
def test_dry_run(case: Json) -> None:
    answer = pure(events_of(case), terms_of(book_of(case), contract_of(case)), second(as_of(case)))
    compare(case, answer)
    assert sorted(reason for _, reason in answer["rejects"]) == sorted(case.get("rejects", []))


@everywhere
def test_second_bookkeeper(case: Json) -> None:
    answer = bookkeeper.rate(events_of(case), book_of(case), contract_of(case), as_of(case))
    compare(case, answer)
    assert sorted(each["reason"] for each in answer["rejects"]) == sorted(case.get("rejects", []))


@everywhere
def test_ledger(case: Json, books: Books) -> None:
    """In any order where no body is in conflict, in any batches, with checkpoints close together."""
    chance, told = random.Random(case["case"]), events_of(case)
    if "conflict" not in case.get("rejects", []):
        chance.shuffle(told)
    books.fresh(terms_of(book_of(case), contract_of(case)))
    with checkpoints_every(chance.choice([1, 2, 8])):
        for batch in batches(told, chance):
            books.record(batch)
    asked = second(as_of(case))
    answer = books.bills(latest(told) if asked is None else asked)
    compare(case, answer)
    assert sorted(reason for _, reason in answer["rejects"]) == sorted(case.get("rejects", []))
    assert books.differences() == []
