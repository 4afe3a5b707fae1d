"""The log that a consumer reads, whoever keeps it: partitions of messages, shared out among the members of a group.

A partition that was just assigned delivers nothing until it is started at an offset: where to go on is written in the
database, never in the log.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from core.errors import BillingError


class Partition(NamedTuple):
    """One partition of a topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.number}"

    @property
    def door(self) -> str:
        """The door of the ledger that its batches come by."""
        return f"kafka:{self.topic}:{self.number}"


class Message(Protocol):
    """One message; its timestamp is in milliseconds since 1970, or negative where it has none."""

    @property
    def offset(self) -> int:
        """Its place in the partition."""
        ...

    @property
    def key(self) -> bytes | None:
        """The instance that it speaks of, by convention."""
        ...

    @property
    def value(self) -> bytes | None:
        """An event, or an array of them."""
        ...

    @property
    def timestamp(self) -> int:
        """When it was produced or received."""
        ...


class BrokerLost(Exception):
    """The log cannot be reached at the moment."""


class LogUnusable(BillingError):
    """The log refuses us for a reason that waiting does not mend."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"Kafka: {reason}")


class PositionGone(BillingError):
    """Messages that were never recorded are no longer in the log, or the log is not the one that was read before."""

    def __init__(self, partition: Partition, offset: int, first: int, end: int) -> None:
        super().__init__(
            f"{partition}: the next message to record is at offset {offset}, but the log holds {first} to {end}; "
            + ("--skip-lost goes on at its first and keeps a note" if offset < first else "is this the same topic?")
        )


class Log(Protocol):
    """A member of a consumer group."""

    def poll(self, timeout_s: float) -> Mapping[Partition, Sequence[Message]]:
        """Messages of started partitions, in order of their offsets; raises ``BrokerLost``, ``LogUnusable``."""
        ...

    def assigned(self) -> set[Partition]:
        """The partitions that are this member's as far as it knows."""
        ...

    def waiting(self) -> set[Partition]:
        """Those of them that have to be started."""
        ...

    def start(self, partition: Partition, offset: int) -> None:
        """Deliver from an offset on."""
        ...

    def halt(self, partitions: Iterable[Partition]) -> None:
        """Deliver nothing of partitions until they are started again."""
        ...

    def bounds(self, partition: Partition) -> tuple[int, int]:
        """The first offset in the log and the one after the last."""
        ...

    def position(self, partition: Partition) -> int:
        """The offset that is delivered next."""
        ...

    def end(self, partition: Partition) -> int | None:
        """The offset after the last message, as far as the member has heard."""
        ...

    def acknowledge(self, offsets: Mapping[Partition, int]) -> None:
        """Tell the log what is recorded, for whoever watches its lag; nothing depends on it."""
        ...

    def connected(self) -> bool:
        """Whether the log has answered lately."""
        ...

    def close(self) -> None:
        """Leave the group."""
        ...
