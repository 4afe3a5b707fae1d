"""A person's decisions in the ledger: which events no longer speak as they came (settled: Decisions)."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from psycopg import Connection

from metering.events import Fact, identity, read_event
from metering.history import Identity, standing


def restate(db: Connection[Any], decisions: Sequence[Fact]) -> dict[int, list[int]]:
    """Record what decisions of this batch speak of and work out anew which events of those instances stand.

    Returns the seconds whose facts changed, by instance. Decisions are rare and made by people, so the whole history
    of an instance is read here.
    """
    rows = [(fact.seq, UUID(bytes=identity(fact.data.source, fact.data.id))) for fact in decisions]
    db.cursor().executemany("INSERT INTO decision (seq, target) VALUES (%s, %s)", rows)
    instances = {row[0] for row in db.execute(TARGETS, [[fact.seq for fact in decisions]])}
    return {number: seconds for number in sorted(instances) if (seconds := _restate_instance(db, number))}


TARGETS = """
    WITH RECURSIVE meant AS (
        SELECT e.seq, e.instance_id, e.kind FROM decision d JOIN event e ON e.identity = d.target
        WHERE d.seq = ANY(%s)
        UNION
        SELECT e.seq, e.instance_id, e.kind FROM meant m JOIN decision d ON d.seq = m.seq
        JOIN event e ON e.identity = d.target
    )
    SELECT DISTINCT instance_id FROM meant
"""


def history_of(db: Connection[Any], number: int, as_of: int = 2**62) -> tuple[list[Fact], dict[Identity, list[Fact]]]:
    """All events of an instance and every decision about them up to an instant, and the other bodies of conflicts."""
    rows = db.execute(
        """
        WITH RECURSIVE about AS (
            SELECT seq, identity, raw FROM event WHERE instance_id = %s AND second <= %s
            UNION
            SELECT d.seq, e.identity, e.raw FROM about a JOIN decision d ON d.target = a.identity
            JOIN event e ON e.seq = d.seq WHERE e.second <= %s
        )
        SELECT seq, raw FROM about ORDER BY seq
        """,
        [number, as_of, as_of],
    ).fetchall()
    facts = [_fact(seq, raw) for seq, raw in rows]
    others: dict[Identity, list[Fact]] = defaultdict(list)
    found = db.execute(
        "SELECT c.raw, e.seq FROM conflict c JOIN event e ON e.identity = c.identity WHERE e.instance_id = %s ORDER BY c.id",
        [number],
    )
    for raw, seq in found:
        other = _fact(seq, raw)
        others[(other.source, other.id)].append(other)
    return facts, others


def _restate_instance(db: Connection[Any], number: int) -> list[int]:
    """Bring the overrides of an instance up to date; returns the seconds that changed."""
    facts, others = history_of(db, number)
    stands = {fact.seq: fact for fact in standing(facts, others)}
    own = {row[0] for row in db.execute("SELECT seq FROM event WHERE instance_id = %s AND kind < 31", [number])}
    wanted: dict[int, bytes | None] = {}
    for fact in facts:
        now = stands.get(fact.seq)
        if fact.seq in own and (now is None or now.raw != fact.raw):
            wanted[fact.seq] = now.raw if now else None
    stored: dict[int, bytes | None] = dict(
        db.execute("SELECT seq, raw FROM override WHERE instance_id = %s", [number]).fetchall()
    )
    changed = {seq for seq in wanted.keys() | stored.keys() if _said(wanted, seq) != _said(stored, seq)}
    db.execute("DELETE FROM override WHERE seq = ANY(%s)", [sorted(changed)])
    db.cursor().executemany(
        "INSERT INTO override (seq, instance_id, raw) VALUES (%s, %s, %s)",
        [(seq, number, wanted[seq]) for seq in sorted(changed) if seq in wanted],
    )
    seconds = [fact.second for fact in facts if fact.seq in changed]
    bodies = [raw for seq in changed for raw in (wanted.get(seq), stored.get(seq)) if raw is not None]
    return seconds + [read_event(bytes(raw)).second for raw in bodies]


def _said(overrides: dict[int, bytes | None], seq: int) -> tuple[bool, bytes | None]:
    raw = overrides.get(seq)
    return (seq in overrides, None if raw is None else bytes(raw))


def _fact(seq: int, raw: bytes) -> Fact:
    fact = read_event(bytes(raw))
    fact.seq = seq
    return fact
