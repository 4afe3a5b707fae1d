"""What tests of the stream share: a topic in memory or on a real broker, and consumers that read it to its end."""

import json
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from metering.consumer import Consumer, Plan
from metering.kafka_log import KafkaLog
from metering.log import Log, Partition
from metering.recorder import Recorder
from metering.store import Db
from tests.memory_log import MemoryBroker, MemoryLog

NET = """
    SELECT i.subject, s.account, s.project, s.sku, s.plan, s.region, p.amount, e.kind, e.day, e.run, sum(e.quantity)
    FROM entry e JOIN instance i ON i.id = e.instance_id JOIN series s ON s.id = e.series_id
    JOIN price p ON p.id = e.price_id GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 HAVING sum(e.quantity) <> 0
"""
FAST = Plan(poll_s=0.1, back_off_s=0.01, back_off_most_s=0.1, until_caught_up=True)


def net(db: Db) -> set[tuple[Any, ...]]:
    """Card-seconds net of reversals, by instance, terms, price, class and day."""
    return set(db.execute(NET).fetchall())


def array(*events: bytes) -> bytes:
    return b"[" + b",".join(events) + b"]"


class Stage(ABC):
    """A topic to write to and to consume."""

    topic: str

    @abstractmethod
    def send(
        self, value: bytes | None, partition: int = 0, key: bytes | None = None, second: int | None = None
    ) -> None:
        """Write a message; ``second`` is when it was received."""

    @abstractmethod
    def member(self) -> Log:
        """A new member of the one group."""

    @abstractmethod
    def told(self, partition: int) -> int | None:
        """What the group has told the log of."""

    @abstractmethod
    def drop_before(self, partition: int, offset: int) -> None:
        """What retention does."""

    def partition(self, number: int = 0) -> Partition:
        return Partition(self.topic, number)

    def flush(self) -> None:  # noqa: B027  # memory has nothing to do
        """Have all written."""

    def consumer(self, url: str, plan: Plan = FAST, log: Callable[[], Log] | None = None, **options: Any) -> Consumer:
        return Consumer(log or self.member, lambda: Recorder(url), plan, **options)

    def consume(self, url: str, plan: Plan = FAST, **options: Any) -> Consumer:
        """Record all that is there."""
        self.flush()
        consumer = self.consumer(url, plan, **options)
        consumer.run()
        return consumer


class MemoryStage(Stage):
    def __init__(self, partitions: int = 1) -> None:
        self.topic = "usage.events"
        self.broker = MemoryBroker(self.topic, partitions)

    def send(
        self, value: bytes | None, partition: int = 0, key: bytes | None = None, second: int | None = None
    ) -> None:
        self.broker.append(partition, value, key, -1 if second is None else second * 1000)

    def member(self) -> Log:
        return MemoryLog(self.broker)

    def told(self, partition: int) -> int | None:
        return self.broker.told.get(self.partition(partition))

    def drop_before(self, partition: int, offset: int) -> None:
        self.broker.drop_before(partition, offset)


class KafkaStage(Stage):
    def __init__(self, servers: str, topic: str) -> None:
        self.servers, self.topic = servers, topic
        self.group = f"test-{uuid.uuid4().hex[:8]}"
        self._producer = KafkaProducer(bootstrap_servers=servers.split(","), linger_ms=5)

    def send(
        self, value: bytes | None, partition: int = 0, key: bytes | None = None, second: int | None = None
    ) -> None:
        when = None if second is None else second * 1000
        self._producer.send(self.topic, value=value, key=key, partition=partition, timestamp_ms=when)

    def flush(self) -> None:
        self._producer.flush()

    def member(self) -> Log:
        settings = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 500}
        return KafkaLog(self.servers, self.topic, self.group, settings=settings)

    def told(self, partition: int) -> int | None:
        with KafkaConsumer(bootstrap_servers=self.servers.split(","), group_id=self.group) as asking:
            found: int | None = asking.committed(TopicPartition(self.topic, partition))
        return found

    def drop_before(self, partition: int, offset: int) -> None:
        self.flush()
        with KafkaAdminClient(bootstrap_servers=self.servers.split(",")) as admin:
            admin.delete_records({TopicPartition(self.topic, partition): offset})

    def close(self) -> None:
        self._producer.close(timeout=5)


def values(events: Sequence[dict[str, Any]]) -> list[bytes]:
    return [json.dumps(each).encode() for each in events]
