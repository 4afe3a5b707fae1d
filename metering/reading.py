"""A batch as read, before any database is asked: facts, heartbeats by session, and what is unreadable."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from metering.door import readable
from metering.events import HEARTBEAT, Fact, Started, Unreadable
from metering.lines import Line

EARLY_S: Final = 300
"""A heartbeat on a stream that is dated later than its receipt by more than this proves nothing (R9)."""

ANY_TIME: Final = 2**62
"""The latest second of a heartbeat where nobody knows when it was received: that of a file."""


class Early(NamedTuple):
    """The heartbeats of an instance that were set aside: the earliest and latest second that they named, how many."""

    first: int
    last: int
    heard: int

    def and_also(self, other: "Early") -> "Early":
        """Both together."""
        return Early(min(self.first, other.first), max(self.last, other.last), self.heard + other.heard)


@dataclass(slots=True)
class Read:
    """What a batch holds; events are counted in order of arrival, from 0.

    ``seconds`` has the heartbeats by (subject, session; empty: the unnamed one), ``births`` the earliest heartbeat that
    gave a full description, by (subject, description), ``early`` by subject those that were set aside.
    """

    received: int = 0
    heard: int = 0
    facts: list[tuple[int, Fact]] = field(default_factory=list)
    unreadable: list[tuple[int, Line, Unreadable]] = field(default_factory=list)
    seconds: dict[tuple[str, str], set[int]] = field(default_factory=dict)
    births: dict[tuple[str, str], int] = field(default_factory=dict)
    early: dict[str, Early] = field(default_factory=dict)

    def add(self, line: Line, latest_beat: int = ANY_TIME) -> bool:
        """Read one event; whether it could be read."""
        index = self.received
        self.received += 1
        try:
            fact = readable(line)
        except Unreadable as fault:
            self.unreadable.append((index, line, fault))
            return False
        if fact.kind == HEARTBEAT:
            self.hear(fact.subject, fact.name or "", fact.second, fact.data.describes(), latest_beat)
        else:
            self.facts.append((index, fact))
        return True

    def refuse(self, line: Line, fault: Unreadable) -> None:
        """Count something that is no event in."""
        self.unreadable.append((self.received, line, fault))
        self.received += 1

    def hear(self, subject: str, session: str, second: int, told: Started | None, latest: int) -> None:
        """Take one heartbeat; ``latest`` is the latest second that it may name."""
        self.heard += 1
        if second > latest:
            early = Early(second, second, 1)
            known = self.early.get(subject)
            self.early[subject] = early.and_also(known) if known else early
            return
        key = (subject, session)
        known_seconds = self.seconds.get(key)
        if known_seconds is None:
            self.seconds[key] = {second}
        else:
            known_seconds.add(second)
        if told is not None:
            birth = (subject, msgspec.json.encode(told).decode())
            self.births[birth] = min(second, self.births.get(birth, second))

    def subjects(self) -> set[str]:
        """The instances that the batch speaks of."""
        return {fact.subject for _, fact in self.facts} | {subject for subject, _ in self.seconds} | self.early.keys()


def read_batch(lines: Iterable[Line], received_at: int | None = None) -> Read:
    """Read events that came one by one, at ``received_at`` where that is known (seconds)."""
    latest = ANY_TIME if received_at is None else received_at + EARLY_S
    read = Read()
    for line in lines:
        read.add(line, latest)
    return read
