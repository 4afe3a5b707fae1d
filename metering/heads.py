"""Heads: where each instance stands, locked for the batch and remembered between batches."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from psycopg import Connection

from core import copying
from metering.state import State, pack, unpack

CHECKPOINT_FACTS = 8
"""A checkpoint is kept every so many facts of an instance."""


@dataclass(slots=True)
class Head:
    """One instance: its state, how far the ledger is posted, facts since its checkpoint, whether it sent heartbeats."""

    version: int = 0
    posted: int = -1
    facts: int = 0
    beats: bool = False
    state: State = field(default_factory=State)

    @property
    def settled(self) -> int:
        """The latest second that facts or postings have spoken of; what is not later is late."""
        return max(self.state.second, self.posted)

    @property
    def running(self) -> bool:
        """Whether time after the settled second may be allocated already."""
        return bool(self.state.sessions) or (self.beats and not self.state.ever)


class Heads:
    """The heads of one recorder; call ``forget`` after any failure."""

    def __init__(self) -> None:
        self._known: dict[int, Head] = {}

    def forget(self) -> None:
        """Drop what is remembered."""
        self._known.clear()

    def lock(self, connection: Connection[Any], instances: Iterable[int]) -> dict[int, Head]:
        """Lock the instances in order and return their heads as they are now (DESIGN: exactly once)."""
        wanted = sorted(set(instances))
        rows = connection.execute(
            "SELECT instance_id, version FROM head WHERE instance_id = ANY(%s::int[]) ORDER BY instance_id FOR UPDATE",
            [copying.numbers(wanted)],
            binary=True,
        ).fetchall()
        stale = [number for number, version in rows if self._version(number) != version]
        if stale:
            self._known.update(load_heads(connection, stale))
        return {number: self._known[number] for number in wanted}

    def _version(self, number: int) -> int:
        known = self._known.get(number)
        return -1 if known is None else known.version


HEAD_QUERY = "SELECT instance_id, version, posted, facts, beats, state FROM head"


def load_heads(connection: Connection[Any], instances: Iterable[int]) -> dict[int, Head]:
    """Heads as they are stored."""
    rows = connection.execute(f"{HEAD_QUERY} WHERE instance_id = ANY(%s)", [list(instances)], binary=True)
    return {row[0]: head_of(row) for row in rows}


def head_of(row: tuple[Any, ...]) -> Head:
    """A head from a row of ``HEAD_QUERY``."""
    _, version, posted, facts, beats, state = row
    return Head(version, posted, facts, beats, unpack(state) if state else State())


def save_heads(connection: Connection[Any], heads: dict[int, Head], version: int) -> None:
    """Write changed heads back, in order of their instances."""
    numbers = sorted(heads)
    changed = [heads[number] for number in numbers]
    for head in changed:
        head.version = version
    connection.execute(
        "UPDATE head SET version = %s, second = n.second, posted = n.posted, facts = n.facts, beats = n.beats,"
        " running = n.running, state = n.state"
        " FROM unnest(%s::int[], %s::bigint[], %s::bigint[], %s::smallint[], %s::bool[], %s::bool[], %s::bytea[])"
        " AS n (instance_id, second, posted, facts, beats, running, state) WHERE head.instance_id = n.instance_id",
        [
            version, copying.numbers(numbers), copying.numbers([head.state.second for head in changed]),
            copying.numbers([head.posted for head in changed]), copying.numbers([head.facts for head in changed]),
            [head.beats for head in changed], [head.running for head in changed],
            copying.blobs([pack(head.state) for head in changed]),
        ],
    )  # fmt: skip


def save_checkpoints(connection: Connection[Any], rows: list[tuple[int, int, bytes]]) -> None:
    """Add checkpoints: (instance, second, packed state)."""
    if rows:
        numbers, seconds, states = zip(*rows, strict=True)
        connection.execute(
            "INSERT INTO checkpoint SELECT * FROM unnest(%s::int[], %s::bigint[], %s::bytea[])"
            " ON CONFLICT (instance_id, second) DO UPDATE SET state = excluded.state",
            [copying.numbers(numbers), copying.numbers(seconds), copying.blobs(states)],
        )
