"""What the tests of the ledger share: one database that is emptied for each example, and both paths to a bill.

``Books`` records through the recorder and asks ``bills``; ``pure`` asks the dry run. Their answers have one shape, so
that a test can compare them whole.
"""

import json
import os
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import Any
from unittest.mock import patch

from core.calendar import instant_of, second_of
from core.database import connect
from invoices.close import Closed, close_month
from invoices.draft import bills_json
from invoices.store import documents
from invoices.verify import differences
from metering.door import accept
from metering.lines import Line
from metering.names import Names
from metering.rate import rate
from metering.recorder import Outcome, Recorder
from metering.store import Db
from metering.terms_store import store_terms
from pricing.book import PriceBook
from pricing.contract import Contract
from pricing.load import parse_terms
from pricing.terms import Terms

Json = dict[str, Any]
Event = Json | str | bytes
Told = Sequence[PriceBook | Contract]


def examples(usual: int) -> int:
    """How many examples a law is tried on; ``GPU_BILLING_EXAMPLES`` multiplies it for a long hunt."""
    return max(1, int(usual * float(os.environ.get("GPU_BILLING_EXAMPLES", "1"))))


def lines_of(events: Sequence[Event], first: int = 1) -> list[Line]:
    """Events as the lines of a file."""
    raws = [e if isinstance(e, bytes) else e.encode() if isinstance(e, str) else json.dumps(e).encode() for e in events]
    return [Line(number, raw, len(raw)) for number, raw in enumerate(raws, start=first)]


def terms_of(*documents: Json | None) -> list[PriceBook | Contract]:
    """Price books and contracts as they are loaded from files."""
    return [each for told in documents if told for each in parse_terms(json.dumps(told).encode(), "terms")]


def second(instant: datetime | None) -> int | None:
    return None if instant is None else second_of(instant)


def latest(events: Sequence[Event]) -> int:
    """The second of the last event that can be read: what ``rate`` takes for as-of by default."""
    return accept(lines_of(events)).latest


def pure(events: Sequence[Event], terms: Told, as_of: int | None) -> Json:
    """What ``rate`` answers, in the shape that is compared."""
    answer = rate(accept(lines_of(events)), Terms.of(*terms), as_of).to_json()
    for each in answer["anomalies"]:
        each["at"] = instant_of(each["at"]).isoformat()
    return comparable(answer)


def comparable(answer: Json) -> Json:
    """An answer without what tells where an event stood, and without an order where there is none."""
    return {
        "bills": answer["bills"],
        "rejects": sorted((str(r["id"]), r["reason"]) for r in answer["rejects"]),
        "duplicates": answer["duplicates"],
        "anomalies": sorted(json.dumps(each, sort_keys=True) for each in answer["anomalies"]),
    }


class Books:
    """One database: emptied, given terms, recorded into by batches, asked for bills."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._owner = connect(url, as_owner=True)
        self._owner.autocommit = True
        self._tables = [row[0] for row in self._owner.execute(TABLES)]
        self.db: Db = connect(url)
        self.db.autocommit = True
        self._aside: Db = connect(url)
        self._aside.autocommit = True
        self.names = Names(self._aside)
        self.recorder: Recorder | None = None

    def close(self) -> None:
        """Let all connections go."""
        for each in (self.recorder, self._owner, self.db, self._aside):
            if each is not None:
                each.close()

    def fresh(self, terms: Told) -> None:
        """Empty books with these terms; as owner, because the application may not take anything back."""
        if self.recorder:
            self.recorder.close()
        with self._owner.transaction():
            self._owner.execute("".join(f"ALTER TABLE {table} DISABLE TRIGGER USER;" for table in self._tables))
            self._owner.execute("".join(f"DELETE FROM {table};" for table in reversed(self._tables)))  # noqa: S608  # ours
            self._owner.execute("".join(f"ALTER TABLE {table} ENABLE TRIGGER USER;" for table in self._tables))
        self.names = Names(self._aside)
        with self.db.transaction():
            store_terms(self.db, terms, False)
        self.recorder = Recorder(self.url)

    def record(self, events: Sequence[Event], door: str = "test") -> Outcome:
        """Record one batch; what comes in is accepted, duplicate or rejected (R26)."""
        assert self.recorder
        outcome = self.recorder.record(door, lines_of(events))
        assert outcome.received == len(events) == outcome.accepted + outcome.duplicate + outcome.rejected
        return outcome

    def bills(self, as_of: int, account: str | None = None) -> Json:
        """What ``bills`` answers, in the shape that is compared."""
        return comparable(bills_json(self.db, self.names, as_of, account, None))

    def accrue(self, until: int) -> None:
        """Post what runs up to an instant."""
        assert self.recorder
        self.recorder.accrue(lambda _: until)

    def close_month(self, month: int, as_of: int) -> Closed:
        """Close a month, open questions accepted."""
        assert self.recorder
        return close_month(self.recorder, self.db, self.names, month, as_of, True)

    def invoices(self) -> list[Json]:
        """All invoices in order of issue."""
        return documents(self.db, None, None)

    def differences(self) -> list[str]:
        """What ``verify`` finds."""
        return list(differences(self.db, self.names))


TABLES = """
    SELECT quote_ident(relname) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
    AND relname <> 'alembic_version' ORDER BY oid
"""


@contextmanager
def opened(url: str) -> Iterator[Books]:
    """The books of a database, let go in the end."""
    books = Books(url)
    try:
        yield books
    finally:
        books.close()


@contextmanager
def checkpoints_every(facts: int) -> Iterator[None]:
    """Checkpoints after so many facts of an instance, so that short histories have some too."""
    readers = [m for name, m in sys.modules.items() if name.startswith("metering.") and hasattr(m, "CHECKPOINT_FACTS")]
    assert len(readers) > 1, "nobody reads how often checkpoints are kept"
    with ExitStack() as patches:
        for module in readers:
            patches.enter_context(patch.object(module, "CHECKPOINT_FACTS", facts))
        yield


def batches(events: Sequence[Event], chance: random.Random) -> list[list[Event]]:
    """The events cut into batches: all at once, one by one, or anything between."""
    most = chance.choice([1, 2, 4, len(events) + 1])
    found: list[list[Event]] = []
    rest = list(events)
    while rest:
        size = chance.randint(1, most)
        found.append(rest[:size])
        rest = rest[size:]
    return found
