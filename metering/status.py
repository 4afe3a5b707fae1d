"""How the service stands: doors with their last batch, partitions and their lag, what waits for someone."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from metering import offsets
from metering.log import Partition
from metering.offsets import Recorded
from metering.store import Db
from metering.terms_store import TermsStore


@dataclass(frozen=True, slots=True)
class Door:
    """A door and its last batch."""

    name: str
    batches: int
    recorded_at: datetime
    received: int
    accepted: int
    duplicate: int
    rejected: int

    def to_json(self) -> dict[str, Any]:
        """An entry of ``gpu-billing status --json``."""
        last = {part: getattr(self, part) for part in ("received", "accepted", "duplicate", "rejected")}
        at = self.recorded_at.isoformat(timespec="seconds")
        return {"door": self.name, "batches": self.batches, "last": {"recorded_at": at, **last}}


@dataclass(frozen=True, slots=True)
class Status:
    """All of it; ``ends`` has the offsets after the last message where the broker told them."""

    doors: list[Door]
    partitions: list[Recorded]
    ends: Mapping[Partition, int]
    running: int
    unproven: int
    waiting: dict[str, int]

    def lag(self, partition: Recorded) -> int | None:
        """Messages that are not recorded, where the broker told."""
        end = self.ends.get(partition.partition)
        return None if end is None else max(0, end - partition.next_offset)

    def to_json(self) -> dict[str, Any]:
        """The object of ``gpu-billing status --json``."""
        return {
            "doors": [each.to_json() for each in self.doors],
            "partitions": [
                {
                    "topic": each.partition.topic, "partition": each.partition.number, "next_offset": each.next_offset,
                    "lag": self.lag(each), "consumer": each.owner, "moved_at": each.updated_at,
                }
                for each in self.partitions
            ],
            "instances": {"running": self.running, "unproven": self.unproven},
            "waiting": self.waiting,
        }  # fmt: skip


def status(db: Db, present: int, ends: Mapping[Partition, int] | None = None) -> Status:
    """How the books stand at a second; ``ends`` is what the broker tells of its partitions."""
    return Status(_doors(db), offsets.recorded(db), ends or {}, *instances(db, present), waiting=_waiting(db))


def instances(db: Db, present: int) -> tuple[int, int]:
    """Instances that run, and those of them that are watched and not proven within the time-out (R9)."""
    terms = TermsStore()
    terms.load(db)
    row = db.execute(
        "SELECT count(*), count(*) FILTER (WHERE h.beats AND h.second < %(since)s AND NOT EXISTS"
        " (SELECT FROM proof_run p WHERE p.instance_id = h.instance_id AND p.last >= %(since)s))"
        " FROM head h WHERE h.running",
        {"since": present - terms.timeouts()[0]},
    ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def _doors(db: Db) -> list[Door]:
    rows = db.execute(
        "SELECT d.name, b.number, b.recorded_at, b.received, b.accepted, b.duplicate, b.rejected FROM door d"
        " CROSS JOIN LATERAL (SELECT * FROM batch WHERE door_id = d.id ORDER BY number DESC LIMIT 1) b ORDER BY d.name"
    )
    return [Door(*row) for row in rows]


WAITING = {
    "dead_letters": "SELECT count(*) FROM dead_letter d WHERE NOT EXISTS"
                    " (SELECT FROM dead_letter_replay r WHERE r.dead_letter_id = d.id)",
    "conflicts": "SELECT count(DISTINCT c.identity) FROM conflict c WHERE NOT EXISTS"
                 " (SELECT FROM decision d WHERE d.target = c.identity)",
    "rejects": "SELECT count(*) FROM reject",
    "heartbeats_from_the_future": "SELECT count(*) FROM early_beat",
    "instances_to_rate_again": "SELECT count(*) FROM rerating",
}  # fmt: skip
"""What waits for a person, and how it is counted; findings on accepted events are counted by their kind."""


def _waiting(db: Db) -> dict[str, int]:
    found = {}
    for name, query in WAITING.items():
        row = db.execute(query).fetchone()
        assert row is not None
        found[name] = int(row[0])
    for kind, count in db.execute("SELECT kind, count(*) FROM finding GROUP BY kind ORDER BY kind"):
        found[kind] = int(count)
    return {name: count for name, count in found.items() if count}
