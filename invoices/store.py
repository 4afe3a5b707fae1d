"""The queries of invoices; they run in the caller's transaction and never commit."""

import json
from collections import defaultdict
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from core.calendar import month_name
from metering.store import Db

SERIES = "INV"
FIRST_DIGEST = bytes(32)


def documents_by_account(db: Db) -> dict[str, list[dict[str, Any]]]:
    """All standing invoices as documents, by account in order of issue."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for account, raw in db.execute("SELECT account, document FROM invoice ORDER BY id"):
        found[account].append(json.loads(bytes(raw)))
    return found


def documents(db: Db, account: str | None, month: int | None) -> list[dict[str, Any]]:
    """Invoices as documents with their status, in order of issue."""
    rows = db.execute(
        "SELECT document FROM invoice WHERE (%s::text IS NULL OR account = %s) AND (%s::int IS NULL OR month = %s)"
        " ORDER BY id",
        [account, account, month, month],
    )
    return [{"status": "issued", **json.loads(bytes(raw))} for (raw,) in rows]


class Numbering:
    """Gapless numbers of one series and year, given inside one transaction that holds the series' row."""

    def __init__(self, db: Db, year: int) -> None:
        self._db, self._year = db, year
        db.execute("INSERT INTO invoice_series VALUES (%s, %s, 0) ON CONFLICT DO NOTHING", [SERIES, year])
        row = db.execute(
            "SELECT last FROM invoice_series WHERE name = %s AND year = %s FOR UPDATE", [SERIES, year]
        ).fetchone()
        assert row is not None
        self._last: int = row[0]
        previous = db.execute(
            "SELECT digest FROM invoice WHERE series = %s AND year = %s ORDER BY position DESC LIMIT 1", [SERIES, year]
        ).fetchone()
        self._digest = bytes(previous[0]) if previous else FIRST_DIGEST

    def next(self) -> str:
        """The next number."""
        self._last += 1
        return f"{SERIES}-{self._year}-{self._last:06d}"

    def store(self, document: Mapping[str, Any], raw: bytes, month: int, issued_at: int, terms_number: int) -> int:
        """Store an invoice under the number given last; returns its row's id."""
        self._digest = sha256(self._digest + raw).digest()
        row = self._db.execute(
            "INSERT INTO invoice (number, series, year, position, account, month, issue, issued_at, terms_number,"
            " document, digest) VALUES (%s, %s, %s, %s, %s, %s, 1, %s, %s, %s, %s) RETURNING id",
            [document["number"], SERIES, self._year, self._last, document["account"], month, issued_at, terms_number,
             raw,
             self._digest],
        ).fetchone()  # fmt: skip
        assert row is not None
        return int(row[0])

    def close(self) -> None:
        """Write down the last number given."""
        self._db.execute(
            "UPDATE invoice_series SET last = %s WHERE name = %s AND year = %s", [self._last, SERIES, self._year]
        )


def chain_heads(db: Db) -> dict[str, dict[str, Any]]:
    """The head of every door's chain: batch number and digest."""
    rows = db.execute(
        "SELECT DISTINCT ON (d.name) d.name, b.number, b.digest FROM batch b JOIN door d ON d.id = b.door_id"
        " ORDER BY d.name, b.number DESC"
    )
    return {name: {"number": number, "digest": bytes(digest).hex()} for name, number, digest in rows}


def held_accounts(db: Db, month: int) -> set[str]:
    """Accounts that a close of the month held and that have no invoice for it yet."""
    rows = db.execute(
        "SELECT account FROM close_hold h WHERE month = %s AND NOT EXISTS"
        " (SELECT FROM invoice i WHERE i.account = h.account AND i.month = h.month)",
        [month],
    )
    return {row[0] for row in rows}


def holds(db: Db) -> dict[str, frozenset[str]]:
    """By account, the names of the months that are held: no correction touches them until they are issued."""
    rows = db.execute(
        "SELECT account, month FROM close_hold h WHERE NOT EXISTS"
        " (SELECT FROM invoice i WHERE i.account = h.account AND i.month = h.month)"
    )
    found: dict[str, set[str]] = defaultdict(set)
    for account, month in rows:
        found[account].add(month_name(month))
    return {account: frozenset(months) for account, months in found.items()}
