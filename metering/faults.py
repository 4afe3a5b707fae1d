"""Verdicts that need all facts of one name: whose fault an incident was (R7), which stops came before their start (R3).

They can come from the future of the time that they judge, so they are found before a timeline is folded.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from metering.events import CLASS_NUMBERS, FAILURE, JUDGED, RETRACTED, START, STOP, Fact

IncidentKey = tuple[int, str]
"""A class number and an incident's name: one incident for ever."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """What all facts of an incident say: the fault that was said last, and its XIDs in order of time."""

    fault: str | None = None
    xids: tuple[int, ...] = ()

    def excluded(self, table: Mapping[int, str]) -> bool:
        """Whether the incident's time is excluded, by a table of XID classes."""
        if self.fault is not None:
            return self.fault == "platform"
        outages = [xid for xid in self.xids if table.get(xid) != "no_outage"]
        if self.xids and not outages:
            return False
        return not outages or table.get(outages[0]) != "user"

    def differs(self, other: "Ruling", tables: Iterable[Mapping[int, str]]) -> bool:
        """Whether this says something else than the other by any of the tables that may be in force."""
        return self != other and any(
            self.excluded(table) != other.excluded(table) or self.unlisted(table) != other.unlisted(table)
            for table in tables
        )

    def unlisted(self, table: Mapping[int, str]) -> tuple[int, ...]:
        """The XIDs that the table does not know, for review."""
        return tuple(sorted({xid for xid in self.xids if xid not in table}))


PLATFORM = Ruling()


@dataclass(frozen=True, slots=True)
class Rulings:
    """The verdicts on one instance: by incident, and the (source, id) of negative stops and their starts."""

    incidents: Mapping[IncidentKey, Ruling] = field(default_factory=dict)
    negative: frozenset[tuple[str, str]] = frozenset()

    def of(self, klass: int, name: str) -> Ruling:
        """The verdict on an incident; without facts that say otherwise the platform answers for it."""
        return self.incidents.get((klass, name), PLATFORM)


NO_RULINGS = Rulings()


def needs_ruling(fact: Fact) -> bool:
    """Whether a fact may change a verdict: failures, judgements, and starts and stops that name their session.

    The end of a failure that tells neither an XID nor a fault changes nothing, and most ends are such.
    """
    if fact.kind == FAILURE + 10:
        return fact.data.xid is not None or fact.data.fault is not None
    return fact.kind in (FAILURE, JUDGED) or (fact.kind in (START, STOP) and fact.name is not None)


def tells_of_incident(fact: Fact) -> bool:
    """Whether a fact begins or ends an incident, of which a judgement may be known."""
    return FAILURE <= fact.kind < RETRACTED


def rulings(facts: Iterable[Fact]) -> Rulings:
    """The verdicts that all facts of one instance give, in any order; retracted facts must be left out."""
    incidents: dict[IncidentKey, list[Fact]] = {}
    sessions: dict[str, list[Fact]] = {}
    for fact in facts:
        if fact.kind in (FAILURE, FAILURE + 10):
            incidents.setdefault((FAILURE, fact.data.incident), []).append(fact)
        elif fact.kind == JUDGED:
            incidents.setdefault((CLASS_NUMBERS[fact.data.klass], fact.data.incident), []).append(fact)
        elif fact.kind in (START, STOP) and fact.name is not None:
            sessions.setdefault(fact.name, []).append(fact)
    negative = frozenset(identity for found in sessions.values() for identity in negatives(found))
    return Rulings({key: ruling(found) for key, found in incidents.items()}, negative)


def ruling(facts: Iterable[Fact]) -> Ruling:
    """The verdict on one incident. A judgement beats what events say; the latest said wins."""
    ordered = sorted(facts, key=_starts_first)
    judged = [fact.data.fault for fact in sorted(ordered, key=Fact.order) if fact.kind == JUDGED]
    said = sorted((fact for fact in ordered if fact.kind != JUDGED and fact.data.fault), key=Fact.order)
    fault = judged[-1] if judged else said[-1].data.fault if said else None
    return Ruling(fault, tuple(f.data.xid for f in ordered if f.kind != JUDGED and f.data.xid is not None))


def negatives(facts: Iterable[Fact]) -> list[tuple[str, str]]:
    """The stops of one session name that lie before its first start, and that start; nothing where there are none."""
    found = list(facts)
    first = min((fact for fact in found if fact.kind == START), key=Fact.order, default=None)
    if first is None:
        return []
    early = [(fact.source, fact.id) for fact in found if fact.kind == STOP and fact.second < first.second]
    return [*early, (first.source, first.id)] if early else []


def _starts_first(fact: Fact) -> tuple[int, int, str, str]:
    return (fact.second, fact.kind, fact.source, fact.id)
