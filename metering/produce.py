"""Events onto a topic: an event or an array of them a message, every event of an instance in the same partition.

Nothing is judged here. A line that is no event goes as it is, alone, so that it takes no good ones along when the
consumer refuses it.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec
from kafka import KafkaProducer
from kafka.errors import KafkaError
from kafka.partitioner import murmur2

from metering.events import MAX_EVENT_BYTES, Unreadable, read_event
from metering.lines import Line
from metering.topics import BOOTSTRAP_MS, MESSAGE_BYTES_MAX, BrokerUnreachable

ARRAY_BYTES: Final = MAX_EVENT_BYTES
"""An array that has grown to so many bytes is sent before it has all of its events."""

UNSENT_BYTES: Final = 32 << 20
"""So much may be under way; kafka-python itself sets no bound."""

SETTINGS: Final[dict[str, Any]] = {
    "acks": "all", "enable_idempotence": True, "compression_type": "lz4", "linger_ms": 20, "batch_size": 256 << 10,
    "max_request_size": MESSAGE_BYTES_MAX - 1024, "bootstrap_timeout_ms": BOOTSTRAP_MS, "max_block_ms": BOOTSTRAP_MS,
    "allow_auto_create_topics": False,
}  # fmt: skip

DELIVERY_S: Final = 150
"""Longer than kafka-python tries to deliver a message."""

TOLD: Final = 20
"""So many bad lines are told one by one."""


class Addressed(msgspec.Struct):
    """What a line must have to be sent after its instance's events, whatever else is wrong with it."""

    subject: str


_addressed = msgspec.json.Decoder(Addressed)


class OutMessage(NamedTuple):
    """What goes onto the topic: the first event's instance as key, one event or an array, how many lines are in it."""

    key: bytes | None
    value: bytes
    partition: int | None
    lines: int


@dataclass(slots=True)
class Produced:
    """What was sent so far."""

    lines: int = 0
    messages: int = 0
    bytes: int = 0
    bad: int = 0
    told: list[tuple[int, str]] = field(default_factory=list)

    def note(self, line: int, reason: str) -> None:
        """A line that the consumer will not take."""
        self.bad += 1
        if len(self.told) < TOLD:
            self.told.append((line, reason))


class Topic:
    """A topic to send to; what is under way is bounded, and what is lost raises ``BrokerUnreachable``."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap, self._name = bootstrap, topic
        self._unsent: deque[tuple[Any, int]] = deque()
        self._unsent_bytes = 0
        with self._told():
            self._producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), **SETTINGS)
            self.partitions = len(self._producer.partitions_for(topic) or ())
        if not self.partitions:
            self.close()
            raise BrokerUnreachable(bootstrap, f"topic {topic} is not there")

    def send(self, message: OutMessage) -> None:
        """Sends one message; waits while too much is under way."""
        with self._told():
            sent = self._producer.send(self._name, message.value, message.key, partition=message.partition)
            self._unsent.append((sent, len(message.value)))
            self._unsent_bytes += len(message.value)
            while self._unsent_bytes > UNSENT_BYTES or (self._unsent and self._unsent[0][0].is_done):
                self._await_oldest()

    def flush(self) -> None:
        """Waits until all is on the topic, in as many copies as it has."""
        with self._told():
            self._producer.flush()
            while self._unsent:
                self._await_oldest()

    def close(self) -> None:
        """Leaves the broker; what is under way and not flushed may be lost."""
        self._producer.close(timeout=5)

    def _await_oldest(self) -> None:
        sent, size = self._unsent.popleft()
        self._unsent_bytes -= size
        sent.get(timeout=DELIVERY_S)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except KafkaError as error:
            raise BrokerUnreachable(self._bootstrap, error) from error


def produce(
    topic: Topic, lines: Iterable[Line], into: Produced, array: int = 1, rate: float | None = None,
    after: Callable[[], None] = lambda: None,
) -> None:  # fmt: skip
    """Send lines as messages, at most ``rate`` lines a second; ``into`` counts them as they are handed over."""
    began = time.monotonic()
    for message in messages(lines, array, topic.partitions, into.note):
        if rate and (ahead := into.lines / rate - (time.monotonic() - began)) > 0:
            time.sleep(ahead)
        topic.send(message)
        into.lines += message.lines
        into.messages += 1
        into.bytes += len(message.value)
        after()
    topic.flush()
    after()


def messages(
    lines: Iterable[Line], array: int, partitions: int, note: Callable[[int, str], None] = lambda _line, _reason: None
) -> Iterator[OutMessage]:
    """Lines as messages, in order within every partition; arrays hold up to ``array`` events of one partition."""
    waiting = [_Array(number) for number in range(partitions)]
    for line in lines:
        key, is_event = _judge(line, note)
        if key is None:
            yield OutMessage(None, line.raw, None, 1)
            continue
        held = waiting[partition_of(key, partitions)]
        if held.events and not (is_event and held.has_room(line.raw, array)):
            yield held.taken()
        if is_event and array > 1:
            held.add(key, line.raw)
        else:
            yield OutMessage(key, line.raw, held.partition, 1)
    yield from (held.taken() for held in waiting if held.events)


@lru_cache(maxsize=100_000)
def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key, as Kafka's own clients choose it."""
    return int((murmur2(key) & 0x7FFFFFFF) % partitions)


@dataclass(slots=True)
class _Array:
    """The events of one partition that wait for more."""

    partition: int
    key: bytes = b""
    events: list[bytes] = field(default_factory=list)
    size: int = 0

    def has_room(self, raw: bytes, most: int) -> bool:
        return len(self.events) < most and self.size + len(raw) < ARRAY_BYTES

    def add(self, key: bytes, raw: bytes) -> None:
        self.key = self.key or key
        self.events.append(raw)
        self.size += len(raw) + 1

    def taken(self) -> OutMessage:
        message = OutMessage(self.key, b"[" + b",".join(self.events) + b"]", self.partition, len(self.events))
        self.key, self.events, self.size = b"", [], 0
        return message


def _judge(line: Line, note: Callable[[int, str], None]) -> tuple[bytes | None, bool]:
    """The instance that a line speaks of, where it can be told, and whether it is an event."""
    try:
        return read_event(line.raw).subject.encode(), True
    except Unreadable as error:
        note(line.number, str(error))
    try:
        return _addressed.decode(line.raw).subject.encode() or None, False
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None, False
