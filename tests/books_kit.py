"""A ledger in a test's own database: terms, events and closes in a line each."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import yaml

from core.calendar import month_number, second_of
from core.database import connect
from invoices.close import Closed, close_month
from invoices.draft import bills_json
from invoices.store import documents
from invoices.verify import differences
from metering.lines import Line
from metering.names import Names
from metering.recorder import Outcome, Recorder
from metering.terms_store import store_terms
from pricing.load import parse_terms

BOOK = """
currency: CNY
time_zone: Asia/Shanghai
skus: {gpu.x: {name: {en: X}}}
plans:
  on_demand: {unit_s: 1}
  hourly: {unit_s: 3600}
  pack_month: {pack: month, renew: true, falls_back_to: on_demand}
prices:
  - {sku: gpu.x, plan: on_demand, per_card_hour: "3.60", from: "2020-01-01T00:00:00+08:00"}
  - {sku: gpu.x, plan: hourly, per_card_hour: "3.60", from: "2020-01-01T00:00:00+08:00"}
  - {sku: gpu.x, plan: pack_month, per_card_pack: "720.00", from: "2020-01-01T00:00:00+08:00"}
"""


def instant(text: str) -> int:
    """``2026-03-01 10:00`` in Shanghai as a second."""
    return second_of(datetime.fromisoformat(f"{text}+08:00"))


def event(
    when: str, kind: str, instance: str = "i", data: Mapping[str, Any] | None = None, id: str | None = None
) -> bytes:
    """One event at a Shanghai time; a start has an account, a SKU and a card unless it says otherwise."""
    base = {"account": "acct", "sku": "gpu.x", "cards": 1} if kind == "instance.started" else {}
    time = f"{when.replace(' ', 'T')}{':00' if when.count(':') == 1 else ''}+08:00"
    return json.dumps({
        "specversion": "1.0", "id": id or f"{kind}-{instance}-{when}", "source": "/test", "type": kind,
        "subject": instance, "time": time, "data": {**base, **(data or {})},
    }).encode()  # fmt: skip


class Books:
    """One ledger and its invoices."""

    def __init__(self, url: str, book: str = BOOK, contract: str | None = None) -> None:
        self.url = url
        self.recorder = Recorder(url)
        self.db = connect(url)
        self.aside = connect(url)
        self.db.autocommit = self.aside.autocommit = True
        self.names = Names(self.aside)
        self.apply(book, *([contract] if contract else []))

    def apply(self, *texts: str) -> None:
        """Record terms."""
        with self.db.transaction():
            for text in texts:
                store_terms(self.db, parse_terms(text.encode(), "terms.yaml"), correction=False)

    def record(self, *events: bytes, door: str = "file:test") -> Outcome:
        """Record events as one batch."""
        return self.recorder.record(door, [Line(n, raw, len(raw)) for n, raw in enumerate(events, start=1)])

    def close(self, month: str, as_of: str, accept_open: bool = False) -> Closed:
        """Close a month at a Shanghai time."""
        return close_month(self.recorder, self.db, self.names, month_number(month), instant(as_of), accept_open)

    def bills(self, as_of: str) -> list[dict[str, Any]]:
        """The bills as of a Shanghai time."""
        found: list[dict[str, Any]] = bills_json(self.db, self.names, instant(as_of), None, None)["bills"]
        return found

    def invoices(self) -> list[dict[str, Any]]:
        """All invoices in order of issue."""
        return documents(self.db, None, None)

    def verify(self) -> list[str]:
        """What does not agree in the books."""
        return list(differences(self.db, self.names))

    def end(self) -> None:
        """Let the connections go."""
        self.recorder.close()
        self.db.close()
        self.aside.close()


@contextmanager
def books(url: str, book: str = BOOK, contract: str | None = None) -> Iterator[Books]:
    """A ledger for the length of a test."""
    opened = Books(url, book, contract)
    try:
        yield opened
    finally:
        opened.end()


def contract_of(**terms: Any) -> str:
    """A contract of the account that ``event`` uses."""
    return str(yaml.safe_dump({"account": "acct", **terms}))


def amounts(document: Mapping[str, Any], names: Iterable[str] = ("list", "charges", "credits", "due")) -> list[str]:
    """Some totals of an invoice or bill."""
    return [document["totals"][name] for name in names]
