"""Open questions: what holds an account's invoice until a person has looked (R26).

A question belongs to the month in which it lies. A recorded decision (withdrawn, resolved, judged) answers it.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from core.calendar import Calendar, instant_of
from metering.events import CLASS_NAMES, START, Fact, read_event
from metering.heads import HEAD_QUERY, head_of
from metering.names import Names
from metering.store import Db
from metering.timeline import Finding
from pricing.terms import Terms

HOLDING_KINDS = frozenset({"no_price", "negative_session", "stop_missing", "unlisted_xid"})
INCIDENT_OPEN_S = 86400
"""An incident that is open for longer waits for a person."""

Questions = dict[str, list[dict[str, Any]]]


def open_questions(
    db: Db, names: Names, terms: Terms, month: int, findings: Sequence[tuple[str, Finding]], as_of: int
) -> Questions:
    """By account, what is open in a month as of an instant."""
    asked: list[tuple[str, int, dict[str, Any]]] = []
    events = _events(db, [each.seq for _, each in findings if each.kind in HOLDING_KINDS])
    for subject, each in findings:
        if each.kind in HOLDING_KINDS:
            event = events.get(each.seq)
            told = {"kind": each.kind, "instance": subject, "detail": each.detail, "id": event.id if event else None}
            asked.append((subject, each.second, told))
    asked += _conflicts(db)
    asked += _incidents(db, names, as_of)
    owners = _owners(db, names, {subject for subject, _, _ in asked})
    found: Questions = defaultdict(list)
    for subject, second, told in asked:
        accounts = owners.get(subject) or [""]
        for account in accounts:
            calendar = terms.account(account).calendar
            if _in_month(calendar, month, second):
                at = instant_of(second, calendar.zone).isoformat()
                found[account].append({**told, "at": at})
    return found


def _in_month(calendar: Calendar, month: int, second: int) -> bool:
    return calendar.month_start(month) <= second < calendar.month_start(month + 1)


def _conflicts(db: Db) -> Iterable[tuple[str, int, dict[str, Any]]]:
    """Conflicts that no decision has resolved."""
    rows = db.execute(
        "SELECT c.raw FROM conflict c WHERE NOT EXISTS (SELECT FROM decision d JOIN event e ON e.seq = d.seq"
        " WHERE d.target = c.identity) ORDER BY c.id"
    ).fetchall()
    for (raw,) in rows:
        fact = read_event(bytes(raw))
        detail = f"{fact.source}#{fact.id} came with two bodies"
        yield fact.subject, fact.second, {"kind": "conflict", "instance": fact.subject, "detail": detail, "id": fact.id}


def _incidents(db: Db, names: Names, as_of: int) -> Iterable[tuple[str, int, dict[str, Any]]]:
    """Incidents that have been open for long and that nobody has judged."""
    open_ones = [
        (row[0], incident) for row in db.execute(HEAD_QUERY, binary=True)
        for incident in head_of(row).state.incidents
    ]  # fmt: skip
    if not open_ones:
        return
    judged = set(db.execute("SELECT instance_id, name FROM event WHERE kind = 33").fetchall())
    seconds = dict(db.execute(
        "SELECT seq, second FROM event WHERE seq = ANY(%s)", [[incident.evidence for _, incident in open_ones]]
    ).fetchall())  # fmt: skip
    subjects = names.subjects_of(number for number, _ in open_ones)
    for number, incident in open_ones:
        since = seconds.get(incident.evidence, as_of)
        if (number, incident.name) not in judged and as_of - since > INCIDENT_OPEN_S:
            detail = f"{CLASS_NAMES[incident.klass]} {incident.name} has no end"
            yield subjects[number], since, {"kind": "incident_open", "instance": subjects[number], "detail": detail}


def _owners(db: Db, names: Names, subjects: set[str]) -> dict[str, list[str]]:
    """The accounts of instances: those they have usage for, else the one that a start of theirs names."""
    numbers = names.instances(subjects)
    wanted = {numbers[subject]: subject for subject in subjects}
    owners: dict[str, list[str]] = defaultdict(list)
    rows = db.execute(
        "SELECT instance_id, account FROM account_instance WHERE instance_id = ANY(%s) ORDER BY account", [list(wanted)]
    )
    for number, account in rows.fetchall():
        owners[wanted[number]].append(account)
    missing = [number for number, subject in wanted.items() if subject not in owners]
    starts = db.execute(
        "SELECT instance_id, raw FROM event WHERE instance_id = ANY(%s) AND kind = %s ORDER BY seq", [missing, START]
    )
    for number, raw in starts.fetchall():
        account = read_event(bytes(raw)).data.account
        if account not in owners[wanted[number]]:
            owners[wanted[number]].append(account)
    return owners


def _events(db: Db, numbers: Sequence[int]) -> dict[int, Fact]:
    rows = db.execute("SELECT seq, raw FROM event WHERE seq = ANY(%s)", [sorted(set(numbers))]).fetchall()
    return {seq: read_event(bytes(raw)) for seq, raw in rows}


def as_json(questions: Sequence[dict[str, Any]]) -> str:
    """Questions as they are recorded with a hold."""
    return json.dumps(questions, sort_keys=True, ensure_ascii=False)
