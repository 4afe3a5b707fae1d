"""Messages of one partition as batches of a bounded size, each to become one transaction."""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from metering.dead_letters import TooManyDeadLetters, Watch
from metering.log import Message, Partition
from metering.messages import DeadLetter, read_message
from metering.reading import EARLY_S, Read

HEARD_WEIGHT: Final = 20
"""So many heartbeats are as much work as one other event."""


@dataclass(frozen=True, slots=True)
class Size:
    """When a batch is full: so many events, or so many bytes of messages."""

    events: int = 5_000
    bytes: int = 32 << 20


@dataclass(slots=True)
class Batch:
    """Messages of a partition as read; ``halt`` is why the consumer has to stop once it is recorded."""

    partition: Partition
    next_offset: int
    read: Read = field(default_factory=Read)
    dead: list[DeadLetter] = field(default_factory=list)
    latest_s: int = 0
    held_bytes: int = 0
    halt: TooManyDeadLetters | None = None

    def full(self, size: Size) -> bool:
        """Whether it is time to record it."""
        read = self.read
        weight = read.received - read.heard + read.heard // HEARD_WEIGHT
        return weight >= size.events or self.held_bytes >= size.bytes


def read_batch(
    partition: Partition, next_offset: int, messages: deque[Message], size: Size, watch: Watch, present: int
) -> Batch:  # fmt: skip
    """The next batch, taken from the front of ``messages``; it stops short of a dead letter too many.

    ``present`` is the second of now: no message was received later, whatever its producer's clock says.
    """
    batch = Batch(partition, next_offset)
    read = batch.read
    while messages and not batch.full(size):
        message = messages[0]
        received_at = present if message.timestamp < 0 else min(message.timestamp // 1000, present)
        received, unreadable = read.received, len(read.unreadable)
        dead = read_message(read, partition, message, received_at, received_at + EARLY_S)
        if dead is None:
            watch.readable()
        elif why := watch.dead(message.offset):
            read.received = received
            del read.unreadable[unreadable:]
            batch.halt = TooManyDeadLetters(partition, message.offset, why, dead)
            messages.clear()
            return batch
        else:
            batch.dead.append(dead)
        messages.popleft()
        batch.next_offset, batch.latest_s = message.offset + 1, received_at
        batch.held_bytes += len(message.value or b"")
    return batch
