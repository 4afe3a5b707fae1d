"""How far each partition is recorded, moved in the transaction of the batch that records it.

Whoever takes a partition over raises its epoch. A consumer that lost it without knowing then finds another epoch or
another offset, and its transaction fails.
"""

from typing import NamedTuple

from metering.log import Partition
from metering.store import Db


class PartitionLost(Exception):
    """Another consumer has taken the partition over, or recorded past the batch."""

    def __init__(self, partition: Partition) -> None:
        super().__init__(f"{partition} is no longer ours")


class Claim(NamedTuple):
    """A partition as taken over: the offset of the first message not recorded yet, and the epoch that writes it."""

    next_offset: int
    epoch: int


class Recorded(NamedTuple):
    """How far a partition is recorded."""

    partition: Partition
    next_offset: int
    owner: str
    updated_at: int


def claim(db: Db, partition: Partition, owner: str, first: int) -> Claim:
    """Take a partition over; one that was never read begins at ``first``. Waits for a batch under way."""
    row = db.execute(
        "INSERT INTO stream_offset (topic, partition, next_offset, epoch, owner) VALUES (%s, %s, %s, 1, %s)"
        " ON CONFLICT (topic, partition) DO UPDATE SET epoch = stream_offset.epoch + 1, owner = excluded.owner,"
        " updated_at = clock_timestamp() RETURNING next_offset, epoch",
        [partition.topic, partition.number, first, owner],
    ).fetchone()
    assert row is not None
    return Claim(*row)


def advance(db: Db, partition: Partition, held: Claim, next_offset: int) -> None:
    """Move a partition on in the transaction of its batch; raises ``PartitionLost`` where it is not as it was left."""
    moved = db.execute(
        "UPDATE stream_offset SET next_offset = %s, updated_at = clock_timestamp()"
        " WHERE topic = %s AND partition = %s AND next_offset = %s AND epoch = %s",
        [next_offset, partition.topic, partition.number, *held],
    )
    if moved.rowcount != 1:
        raise PartitionLost(partition)


def rewind(db: Db, topic: str, offset: int = 0) -> int:
    """Have all partitions of a topic recorded again from an offset on; returns how many there are.

    What is known already is a duplicate then and changes nothing (R25). A consumer that runs loses its partitions.
    """
    return db.execute(
        "UPDATE stream_offset SET next_offset = %s, epoch = epoch + 1, updated_at = clock_timestamp() WHERE topic = %s",
        [offset, topic],
    ).rowcount


def recorded(db: Db) -> list[Recorded]:
    """All partitions, in order."""
    rows = db.execute(
        "SELECT topic, partition, next_offset, owner, extract(epoch FROM updated_at)::bigint FROM stream_offset"
        " ORDER BY topic, partition"
    )
    return [Recorded(Partition(topic, number), *rest) for topic, number, *rest in rows]
