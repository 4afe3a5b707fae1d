"""Versions of terms in the database: recorded for ever, read again only when one was added."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from psycopg import Connection

from pricing.book import PriceBook
from pricing.canonical import canonical, from_canonical
from pricing.contract import Contract
from pricing.terms import Terms, Version

DEFAULT_TIMEOUT_S = 180
TERMS_LOCK = 0x67625F74


class TermsStore:
    """The terms as one process knows them."""

    def __init__(self) -> None:
        self._mark: tuple[int, int] | None = None
        self._terms = Terms(())

    def load(self, db: Connection[Any]) -> Terms:
        """All versions and pins, from memory while nothing was added."""
        row = db.execute(
            "SELECT coalesce((SELECT max(number) FROM terms_version), 0),"
            " (SELECT coalesce(sum(terms_number + month), 0) FROM month_pin)"
        ).fetchone()
        assert row is not None
        if self._mark != (row[0], row[1]):
            self._terms = load_terms(db)
            self._mark = (row[0], row[1])
        return self._terms

    def shortest_timeout(self) -> int:
        """The shortest heartbeat time-out of all versions, in seconds."""
        books = (version.terms for version in self._terms.versions)
        return min((b.heartbeat_timeout_s for b in books if isinstance(b, PriceBook)), default=DEFAULT_TIMEOUT_S)


def load_terms(db: Connection[Any]) -> Terms:
    """All versions in order of recording, and the pins of closed months."""
    rows = db.execute("SELECT number, canonical, correction FROM terms_version ORDER BY number").fetchall()
    pins = dict(db.execute("SELECT month, terms_number FROM month_pin").fetchall())
    return Terms((Version(number, from_canonical(bytes(text)), fix) for number, text, fix in rows), pins)


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of a price book or contract: its number, and whether it was known already."""

    kind: str
    name: str
    number: int
    known: bool
    terms: PriceBook | Contract


def store_terms(db: Connection[Any], found: Sequence[PriceBook | Contract], correction: bool) -> list[Applied]:
    """Record versions; one that equals the latest of its name is known already and adds nothing."""
    db.execute("SELECT pg_advisory_xact_lock(%s)", [TERMS_LOCK])
    applied = []
    for each in found:
        kind, name = ("price_book", each.id) if isinstance(each, PriceBook) else ("contract", each.account)
        text = canonical(each)
        digest = sha256(text).digest()
        latest = db.execute(
            "SELECT number, digest FROM terms_version WHERE kind = %s AND name = %s ORDER BY number DESC LIMIT 1",
            [kind, name],
        ).fetchone()
        if latest is not None and bytes(latest[1]) == digest:
            applied.append(Applied(kind, name, latest[0], True, each))
            continue
        row = db.execute(
            "INSERT INTO terms_version (number, kind, name, digest, correction, canonical)"
            " SELECT coalesce(max(number), 0) + 1, %s, %s, %s, %s, %s FROM terms_version RETURNING number",
            [kind, name, digest, correction, text],
        ).fetchone()
        assert row is not None
        applied.append(Applied(kind, name, row[0], False, each))
    return applied
