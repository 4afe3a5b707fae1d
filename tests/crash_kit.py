"""Crashes on purpose: consumers that die at every step, and what the ledger must say in the end.

All that happens follows from two seeds: one for the topic, one for the disasters.
"""

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import psycopg

from core import copying
from metering import offsets
from metering.batches import Size
from metering.consumer import Consumer, Plan
from metering.lines import Line
from metering.log import BrokerLost, Partition
from metering.recorder import Recorder
from tests.books_kit import event
from tests.memory_log import MemoryBroker, MemoryLog, Stored
from tests.stream_kit import array

STEPS = ("after poll", "at a rebalance", "mid-COPY", "before commit", "after commit", "database", "broker", "stall")
PLAN = Plan(Size(events=6), poll_s=0, back_off_s=0, back_off_most_s=0)


class Killed(BaseException):
    """A process is gone: nothing of it runs any more."""


@dataclass
class Topic:
    """What is sent: messages by partition, and events that come by another door."""

    partitions: int
    messages: list[tuple[int, bytes]] = field(default_factory=list)
    beside: list[bytes] = field(default_factory=list)
    events: int = 0

    def fill(self, broker: MemoryBroker) -> None:
        for partition, value in self.messages:
            broker.append(partition, value)


def topic_of(seed: int, instances: int = 5) -> Topic:
    """A topic with late, doubled and shuffled events, arrays that mix instances, heartbeats, and rubbish."""
    chance = random.Random(seed)
    topic = Topic(chance.randint(1, 4))
    stories = [story(f"i{number}", chance) for number in range(instances)]
    events = [each for story_ in stories for each in story_]
    events += chance.sample(events, len(events) // 6)
    moved = [(place + chance.choice([0, 0, 1, 5, 40]) * chance.random(), raw) for place, raw in enumerate(events)]
    events = [raw for _, raw in sorted(moved)] if chance.random() < 0.7 else chance.sample(events, len(events))
    topic.beside = chance.sample(events, len(events) // 5)
    rest = [each for each in events if each not in topic.beside or chance.random() < 0.3]
    while rest:
        size = chance.choice([1, 1, 2, 3, 8])
        part, rest = rest[:size], rest[size:]
        value = part[0] if len(part) == 1 and chance.random() < 0.8 else array(*part)
        topic.messages.append((chance.randrange(topic.partitions), value))
        topic.events += len(part)
        if chance.random() < 0.03:
            topic.messages.append((chance.randrange(topic.partitions), b"rubbish %d" % len(rest)))
            topic.events += 1
    return topic


def story(instance: str, chance: random.Random) -> list[bytes]:
    """A few days of one instance."""

    def at(minute: int) -> str:
        return f"2026-03-{28 + minute // 1440:02} {minute // 60 % 24:02}:{minute % 60:02}"

    found: list[bytes] = []
    minute = chance.randrange(600)
    for run in range(chance.randint(1, 3)):
        end = minute + chance.randrange(30, 1500)
        if end > 5_000:
            break
        plan = chance.choice(["on_demand", "on_demand", "hourly", "pack_month"])
        found.append(event(at(minute), "instance.started", instance, {"cards": 4, "plan": plan}))
        for number in range(chance.randrange(4)):
            since = chance.randrange(minute, end)
            kind, incident = chance.choice(["failure", "migration", "idle"]), {"incident": f"{run}-{number}"}
            some = {"cards": [0, 1]} if chance.random() < 0.5 else {}
            found.append(event(at(since), f"{kind}.started", instance, {**incident, **some}))
            found.append(event(at(min(since + chance.randrange(1, 90), 5_500)), f"{kind}.ended", instance, incident))
        if chance.random() < 0.4:
            found.append(event(at(chance.randrange(minute, end)), "instance.resized", instance, {"cards": 2}))
        if chance.random() < 0.5:
            found += [event(at(m), "instance.heartbeat", instance) for m in range(minute, end, chance.choice([2, 30]))][
                :40
            ]
        if chance.random() < 0.8:
            found.append(event(at(end), "instance.stopped", instance))
        minute = end + chance.randrange(5, 300)
    return found


class Disasters:
    """Decides where the next one strikes, and strikes."""

    def __init__(self, seed: int, count: int) -> None:
        self.chance = random.Random(seed)
        self.left = count
        self.struck: list[str] = []
        self.others: Callable[[], None] = lambda: None
        self._wanted = self._aim()

    def _aim(self) -> tuple[str, int]:
        return self.chance.choice(STEPS), self.chance.randint(1, 4)

    def strikes(self, step: str) -> bool:
        """Whether it strikes at this very moment."""
        wanted, times = self._wanted
        if not self.left or step != wanted:
            return False
        if times > 1:
            self._wanted = (wanted, times - 1)
            return False
        self.left -= 1
        self.struck.append(step)
        self._wanted = self._aim()
        return True

    def kill(self, step: str) -> None:
        if self.strikes(step):
            raise Killed(step)


class FragileLog(MemoryLog):
    """A member whose process may die, or hang while others go on."""

    def __init__(self, broker: MemoryBroker, disasters: Disasters) -> None:
        super().__init__(broker, most_messages=disasters.chance.choice([1, 3, 20]))
        self.disasters = disasters

    def poll(self, timeout_s: float) -> Mapping[Partition, Sequence[Stored]]:
        if self.disasters.strikes("broker"):
            raise BrokerLost("it went away")
        found = super().poll(timeout_s)
        if found:
            self.disasters.kill("after poll")
            if self.disasters.strikes("stall"):  # the group goes on without us, and we know nothing of it
                self.broker.leave(self)
                self.disasters.others()
        return found

    def bounds(self, partition: Partition) -> tuple[int, int]:
        self.disasters.kill("at a rebalance")
        return super().bounds(partition)

    def acknowledge(self, offsets: Mapping[Partition, int]) -> None:
        self.disasters.kill("after commit")
        super().acknowledge(offsets)


class FragileRecorder(Recorder):
    """A recorder whose process, or whose connection, may die in a transaction."""

    def __init__(self, url: str, disasters: Disasters) -> None:
        super().__init__(url)
        self.disasters = disasters

    def _record(self, *args: Any) -> Any:
        outcome = super()._record(*args)
        self.disasters.kill("before commit")
        if self.disasters.strikes("database"):
            self.connection.close()
            raise psycopg.OperationalError("the server closed the connection")
        return outcome


@contextmanager
def fragile_copy(disasters: Disasters) -> Iterator[None]:
    """COPY that may send half of its rows and never end."""
    whole = copying.copy_rows

    def copy(db: Any, table: str, columns: Any, rows: Any) -> None:
        listed = list(rows)
        if disasters.strikes("mid-COPY"):
            whole(db, table, columns, listed[: len(listed) // 2])
            raise Killed("mid-COPY")
        whole(db, table, columns, listed)

    with patch.object(copying, "copy_rows", copy):
        yield


class Cluster:
    """Members of a group that come, die and hang, and another door beside them."""

    def __init__(self, url: str, topic: Topic, disasters: Disasters) -> None:
        self.url, self.topic, self.disasters = url, topic, disasters
        self.broker = MemoryBroker("usage.events", topic.partitions)
        topic.fill(self.broker)
        self.wanted = disasters.chance.randint(1, 3)
        self.members: list[Consumer] = []
        self.beside = list(topic.beside)
        self.door = Recorder(url)
        self._deep = False
        disasters.others = self._meanwhile

    def run(self) -> None:
        """Turn members at random until all is recorded and no disaster is left to come."""
        with fragile_copy(self.disasters):
            for _ in range(2_000):
                self._act()
                if self._done():
                    break
            else:
                raise AssertionError(f"not done after {self.disasters.struck}")
        for each in self.members:
            each.close()
        self.door.close()

    def _act(self) -> None:
        if len(self.members) < self.wanted:
            self.members.append(self._member())
        if self.beside and self.disasters.chance.random() < 0.3:
            self._send_beside()
        self._turn(self.disasters.chance.choice(self.members))

    def _send_beside(self) -> None:
        """The other door may die as well; then its client sends the same again."""
        try:
            self.door.record("http:beside", [Line(1, raw, len(raw)) for raw in self.beside[:3]])
        except Killed:
            self.door.close()
            self.door = Recorder(self.url)
        else:
            self.beside = self.beside[3:]

    def _member(self) -> Consumer:
        return Consumer(
            lambda: FragileLog(self.broker, self.disasters), lambda: FragileRecorder(self.url, self.disasters), PLAN,
            chance=self.disasters.chance,
        )  # fmt: skip

    def _turn(self, member: Consumer) -> None:
        try:
            member._turn()
        except Killed:
            self._bury(member)

    def _bury(self, member: Consumer) -> None:
        """The server sees the connections end; the group notices sooner or later."""
        if member in self.members:
            self.members.remove(member)
        if member._recorder is not None:
            member._recorder.close()
        if isinstance(member._log, MemoryLog):
            self.broker.leave(member._log)

    def _meanwhile(self) -> None:
        """What others do while one member hangs."""
        if self._deep:
            return
        self._deep = True
        other = self._member()
        for _ in range(self.disasters.chance.randint(1, 4)):
            try:
                other._turn()
            except Killed:
                break
        self._bury(other)
        self._deep = False

    def _done(self) -> bool:
        """What the database says counts: a member that hung may think otherwise."""
        with self.door.connection.transaction():
            recorded = sum(each.next_offset for each in offsets.recorded(self.door.connection))
        return not self.beside and recorded == len(self.topic.messages)


def describe(topic: int, disasters: int, struck: Sequence[str]) -> str:
    """How to see it again."""
    return json.dumps({"topic": topic, "disasters": disasters, "struck": list(struck)})
