"""Versions of terms in the database: recorded for ever, read again only when one was added."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

from psycopg import Connection

from core.calendar import instant_of
from pricing.book import ALWAYS, PriceBook
from pricing.canonical import canonical, from_canonical
from pricing.contract import Contract
from pricing.terms import Terms, Version

DEFAULT_TIMEOUT_S = 180
TERMS_LOCK = 0x67625F74
RATING_LOCK = 0x67625F72
"""Batches share it; who records new terms holds it alone, so that no batch rates by terms that are older."""


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

    def timeouts(self) -> tuple[int, int]:
        """The shortest and the longest heartbeat time-out of all versions and the default, in seconds."""
        books = (version.terms for version in self._terms.versions)
        found = [DEFAULT_TIMEOUT_S, *(b.heartbeat_timeout_s for b in books if isinstance(b, PriceBook))]
        return min(found), max(found)


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


@dataclass(frozen=True, slots=True)
class Recorded:
    """One version as it was recorded; ``since`` is its ``from``, None where it always held."""

    number: int
    kind: str
    name: str
    since: int | None
    recorded_at: datetime
    correction: bool

    def to_json(self) -> dict[str, Any]:
        """An entry of ``gpu-billing terms list --json``."""
        return {
            "version": self.number, "kind": self.kind, "name": self.name,
            "from": None if self.since is None else instant_of(self.since).isoformat(),
            "recorded_at": self.recorded_at.isoformat(timespec="seconds"), "correction": self.correction,
        }  # fmt: skip


def recorded_versions(db: Connection[Any]) -> list[Recorded]:
    """All versions in order of recording."""
    rows = db.execute(
        "SELECT number, kind, name, recorded_at, correction, canonical FROM terms_version ORDER BY number"
    ).fetchall()
    found = []
    for number, kind, name, recorded_at, correction, text in rows:
        since = from_canonical(bytes(text)).since
        found.append(Recorded(number, kind, name, None if since == ALWAYS else since, recorded_at, correction))
    return found


def name_of(terms: PriceBook | Contract) -> tuple[str, str]:
    """What versions of one thing have in common: its kind and name."""
    return ("price_book", terms.id) if isinstance(terms, PriceBook) else ("contract", terms.account)


def store_terms(db: Connection[Any], found: Sequence[PriceBook | Contract], correction: bool) -> list[Applied]:
    """Record versions; where those of one name equal its latest ones, in order, they are known and add nothing."""
    db.execute("SELECT pg_advisory_xact_lock(%s)", [TERMS_LOCK])
    applied = []
    for (kind, name), own in _by_name(found).items():
        texts = [canonical(each) for each in own]
        numbers = _known(db, kind, name, [sha256(text).digest() for text in texts], correction)
        for place, (each, text) in enumerate(zip(own, texts, strict=True)):
            number = numbers[place] if numbers else _insert(db, kind, name, text, correction)
            applied.append(Applied(kind, name, number, bool(numbers), each))
    return sorted(applied, key=lambda each: each.number)


def _by_name(found: Iterable[PriceBook | Contract]) -> dict[tuple[str, str], list[PriceBook | Contract]]:
    named: dict[tuple[str, str], list[PriceBook | Contract]] = {}
    for each in found:
        named.setdefault(name_of(each), []).append(each)
    return named


def _known(db: Connection[Any], kind: str, name: str, digests: list[bytes], correction: bool) -> list[int]:
    """The numbers of the latest versions of a name where they are just these, else nothing."""
    rows = db.execute(
        "SELECT number, digest, correction FROM terms_version WHERE kind = %s AND name = %s"
        " ORDER BY number DESC LIMIT %s",
        [kind, name, len(digests)],
    ).fetchall()[::-1]
    same = [bytes(digest) for _, digest, _ in rows] == digests and all(fix or not correction for _, _, fix in rows)
    return [number for number, _, _ in rows] if same else []


def _insert(db: Connection[Any], kind: str, name: str, text: bytes, correction: bool) -> int:
    row = db.execute(
        "INSERT INTO terms_version (number, kind, name, digest, correction, canonical)"
        " SELECT coalesce(max(number), 0) + 1, %s, %s, %s, %s, %s FROM terms_version RETURNING number",
        [kind, name, sha256(text).digest(), correction, text],
    ).fetchone()
    assert row is not None
    return int(row[0])
