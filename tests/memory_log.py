"""A log in memory that behaves as Kafka does where a consumer can notice: groups, rebalances, expelled members."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from metering.log import BrokerLost, Partition


@dataclass(frozen=True)
class Stored:
    """A message."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int


@dataclass
class MemoryBroker:
    """One topic and one group; partitions are dealt out to members in order of joining."""

    topic: str
    partitions: int = 1
    down: bool = False
    told: dict[Partition, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.logs: list[list[Stored]] = [[] for _ in range(self.partitions)]
        self.firsts = [0] * self.partitions
        self.members: list[MemoryLog] = []
        self.generation = 0

    def append(self, partition: int, value: bytes | None, key: bytes | None = None, timestamp: int = -1) -> None:
        log = self.logs[partition]
        log.append(Stored(len(log), key, value, timestamp))

    def drop_before(self, partition: int, offset: int) -> None:
        """What retention does."""
        self.firsts[partition] = offset

    def join(self, member: "MemoryLog") -> None:
        self.members.append(member)
        self.generation += 1

    def leave(self, member: "MemoryLog") -> None:
        """Also what happens to a member that is not heard of for too long, and does not know."""
        if member in self.members:
            self.members.remove(member)
            self.generation += 1

    def dealt(self, member: "MemoryLog") -> set[Partition]:
        place, count = self.members.index(member), len(self.members)
        return {Partition(self.topic, each) for each in range(self.partitions) if each % count == place}


class MemoryLog:
    """A member of the group."""

    def __init__(self, broker: MemoryBroker, most_messages: int = 5_000) -> None:
        self.broker, self.most = broker, most_messages
        self._positions: dict[Partition, int] = {}
        self._waiting: set[Partition] = set()
        self._generation = -1
        broker.join(self)

    def poll(self, timeout_s: float) -> Mapping[Partition, Sequence[Stored]]:  # noqa: ARG002  # nothing to wait for
        if self.broker.down:
            raise BrokerLost("it is down")
        if self._generation != self.broker.generation:
            self._rejoin()
        found: dict[Partition, Sequence[Stored]] = {}
        rest = self.most
        for partition in sorted(self._positions.keys() - self._waiting):
            position, log = self._positions[partition], self.broker.logs[partition.number]
            if not self.broker.firsts[partition.number] <= position <= len(log):
                self._waiting.add(partition)
                continue
            messages = log[position : position + rest]
            if messages:
                found[partition] = messages
                self._positions[partition] += len(messages)
                rest -= len(messages)
        return found

    def _rejoin(self) -> None:
        if self not in self.broker.members:
            self.broker.join(self)
        self._generation = self.broker.generation
        self._positions = dict.fromkeys(self.broker.dealt(self), 0)
        self._waiting = set(self._positions)

    def assigned(self) -> set[Partition]:
        return set(self._positions)

    def waiting(self) -> set[Partition]:
        return set(self._waiting)

    def start(self, partition: Partition, offset: int) -> None:
        if partition in self._positions:
            self._positions[partition] = offset
        self._waiting.discard(partition)

    def halt(self, partitions: Iterable[Partition]) -> None:
        self._waiting |= set(partitions) & self._positions.keys()

    def bounds(self, partition: Partition) -> tuple[int, int]:
        return self.broker.firsts[partition.number], len(self.broker.logs[partition.number])

    def position(self, partition: Partition) -> int:
        return self._positions[partition]

    def end(self, partition: Partition) -> int | None:
        return len(self.broker.logs[partition.number])

    def acknowledge(self, offsets: Mapping[Partition, int]) -> None:
        self.broker.told.update(offsets)

    def connected(self) -> bool:
        return not self.broker.down

    def close(self) -> None:
        self.broker.leave(self)
