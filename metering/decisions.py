"""A person's decisions in the ledger: which events no longer speak as they came (settled: Decisions)."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from psycopg import Connection

from metering.events import RESOLVED, RETRACTED, Fact, identity, read_event
from metering.history import Identity, standing
from metering.names import Names

Place = tuple[int, Fact]
"""An instance's number and what a fact says of it."""


def restate(db: Connection[Any], names: Names, decisions: Sequence[Fact], identities: Iterable[bytes]) -> list[Place]:
    """Record the decisions of a batch and work out anew which of the events that they mean stand.

    ``identities`` are those of the batch's events, accepted or in conflict: a decision may have come before them.
    Returns what spoke and speaks no longer, and what speaks instead.
    """
    rows = [(fact.seq, UUID(bytes=identity(fact.data.source, fact.data.id))) for fact in decisions]
    db.cursor().executemany("INSERT INTO decision (seq, target) VALUES (%s, %s)", rows)
    found = {target for _, target in rows}
    if db.execute("SELECT 1 FROM decision LIMIT 1").fetchone():
        known = "SELECT DISTINCT target FROM decision WHERE target = ANY(%s::text[]::uuid[])"
        found.update(row[0] for row in db.execute(known, [[each.hex() for each in identities]]))
    return _restate(db, names, found) if found else []


MEANT = """
    WITH RECURSIVE meant AS (
        SELECT seq, identity FROM event WHERE identity = ANY(%s)
        UNION
        SELECT e.seq, e.identity FROM meant m JOIN decision d ON d.seq = m.seq JOIN event e ON e.identity = d.target
    ), about AS (
        SELECT seq, identity FROM meant
        UNION
        SELECT e.seq, e.identity FROM about a JOIN decision d ON d.target = a.identity JOIN event e ON e.seq = d.seq
    )
    SELECT e.seq, e.instance_id, e.raw FROM about a JOIN event e ON e.seq = a.seq
"""
"""The events that decisions mean, those that their decisions mean, and every decision about any of them."""

HISTORY = """
    WITH RECURSIVE about AS (
        SELECT seq, identity, raw FROM event WHERE instance_id = %(number)s
        UNION
        SELECT e.seq, e.identity, e.raw FROM conflict c JOIN event e ON e.identity = c.identity
        WHERE c.instance_id = %(number)s
        UNION
        SELECT d.seq, e.identity, e.raw FROM about a JOIN decision d ON d.target = a.identity
        JOIN event e ON e.seq = d.seq
    )
    SELECT seq, raw FROM about ORDER BY seq
"""


def history_of(db: Connection[Any], number: int, as_of: int = 2**62) -> tuple[list[Fact], dict[Identity, list[Fact]]]:
    """All that may be told of an instance, with the decisions about it up to an instant, and bodies in conflict."""
    facts = [_fact(seq, raw) for seq, raw in db.execute(HISTORY, {"number": number}).fetchall()]
    known = [fact for fact in facts if fact.kind not in (RETRACTED, RESOLVED) or fact.second <= as_of]
    return known, _other_bodies(db, known)


def _other_bodies(db: Connection[Any], facts: Iterable[Fact]) -> dict[Identity, list[Fact]]:
    identities = [UUID(bytes=fact.identity()) for fact in facts]
    others: dict[Identity, list[Fact]] = defaultdict(list)
    for (raw,) in db.execute("SELECT raw FROM conflict WHERE identity = ANY(%s) ORDER BY id", [identities]):
        other = _fact(0, raw)
        others[(other.source, other.id)].append(other)
    return others


def _restate(db: Connection[Any], names: Names, targets: Iterable[UUID]) -> list[Place]:
    """Bring the overrides of events up to date that decisions mean."""
    rows = db.execute(MEANT, [list(targets)]).fetchall()
    facts = [_fact(seq, raw) for seq, _, raw in rows]
    came = {fact.seq: (row[1], fact) for row, fact in zip(rows, facts, strict=True)}
    stands = {fact.seq: fact for fact in standing(facts, _other_bodies(db, facts))}
    stored = _overrides(db, came)
    numbers = names.instances({fact.subject for fact in stands.values()})
    wanted: dict[int, Place | None] = {}
    for fact in facts:
        now = stands.get(fact.seq)
        if fact.kind not in (RETRACTED, RESOLVED) and (now is None or now.raw != fact.raw):
            wanted[fact.seq] = (numbers[now.subject], now) if now else None
    changed = sorted(seq for seq in wanted.keys() | stored.keys() if _said(wanted, seq) != _said(stored, seq))
    db.execute("DELETE FROM override WHERE seq = ANY(%s)", [changed])
    db.cursor().executemany(
        "INSERT INTO override (seq, instance_id, second, kind, name, raw) VALUES (%s, %s, %s, %s, %s, %s)",
        [_override_row(seq, wanted[seq], came[seq][0]) for seq in changed if seq in wanted],
    )
    places = [came[seq] if seq not in held else held[seq] for seq in changed for held in (wanted, stored)]
    return [place for place in places if place is not None]


def _overrides(db: Connection[Any], seqs: Iterable[int]) -> dict[int, Place | None]:
    rows = db.execute("SELECT seq, instance_id, raw FROM override WHERE seq = ANY(%s)", [list(seqs)]).fetchall()
    return {seq: None if raw is None else (number, _fact(seq, raw)) for seq, number, raw in rows}


def _override_row(seq: int, place: Place | None, number: int) -> tuple[Any, ...]:
    if place is None:
        return (seq, number, None, None, None, None)
    instance, fact = place
    return (seq, instance, fact.second, fact.kind, fact.name, fact.raw)


def _said(overrides: dict[int, Place | None], seq: int) -> tuple[bool, bytes | None]:
    place = overrides.get(seq)
    return (seq in overrides, None if place is None else place[1].raw)


def _fact(seq: int, raw: bytes) -> Fact:
    fact = read_event(bytes(raw))
    fact.seq = seq
    return fact
