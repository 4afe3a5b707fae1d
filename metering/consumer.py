"""From the log to the ledger, exactly once: a batch of a partition and its next offset are one transaction.

The consumer starts a partition where the database says and moves that offset with what it records, so a crash anywhere
leaves both or neither. The log is told afterwards and never asked. What waiting mends (a broker or a database that is
away, a partition that another took) is waited out; what it does not mend ends the run with one line.
"""

import os
import socket
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from secrets import token_hex
from threading import Event
from time import monotonic

import psycopg
import structlog

from core.calendar import second_of
from core.clock import Clock, now
from core.database import DatabaseUnavailable
from metering import dead_letters, metrics, offsets
from metering.back_off import BackOff
from metering.batches import Batch, Size, read_batch
from metering.dead_letters import Limits, Watch
from metering.log import BrokerLost, Log, Message, Partition, PositionGone
from metering.messages import DeadLetter
from metering.offsets import Claim, PartitionLost
from metering.recorder import BatchRefused, Recorder
from metering.store import Db

DATABASE_LOST = (psycopg.OperationalError, psycopg.InterfaceError, DatabaseUnavailable, BatchRefused)
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Plan:
    """How a consumer works: the size of its batches, its patience, when it stops."""

    size: Size = field(default_factory=Size)
    poll_s: float = 0.5
    back_off_s: float = 0.2
    back_off_most_s: float = 15.0
    limits: Limits = field(default_factory=Limits)
    skip_lost: bool = False
    until_caught_up: bool = False


@dataclass(slots=True)
class Held:
    """A partition that is ours: its offset and epoch in the database, and its latest dead letters."""

    claim: Claim
    watch: Watch


class Consumer:
    """One member of the group; ``stop`` may be set from anywhere and ends ``run`` after the batch under way."""

    def __init__(
        self, open_log: Callable[[], Log], open_recorder: Callable[[], Recorder], plan: Plan | None = None,
        clock: Clock = now, chance: Random | None = None,
    ) -> None:  # fmt: skip
        self.plan = plan or Plan()
        self.stop = Event()
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{token_hex(2)}"
        self._open_log, self._open_recorder, self._clock = open_log, open_recorder, clock
        self._back_off = BackOff(self.plan.back_off_s, self.plan.back_off_most_s, chance)
        self._log: Log | None = None
        self._recorder: Recorder | None = None
        self._held: dict[Partition, Held] = {}
        self._lost: set[str] = set()
        self._turned_at = monotonic()
        self._caught_up = False

    # --- running -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Record until told to stop; raises ``BillingError`` for what a person has to mend."""
        try:
            while not self.stop.is_set():
                self._turn()
                if self.plan.until_caught_up and self._caught_up:
                    return
        finally:
            self.close()

    def close(self) -> None:
        """Leave the group and let the database go."""
        member, self._log = self._log, None
        recorder, self._recorder = self._recorder, None
        try:
            if recorder is not None:
                recorder.close()
        finally:
            if member is not None:
                member.close()

    def alive(self, within_s: float = 120) -> bool:
        """Whether the run goes round; waiting for a lost server is going round."""
        return monotonic() - self._turned_at < within_s

    def ready(self) -> bool:
        """Whether the log and the database answer."""
        member = self._log
        return member is not None and self._recorder is not None and not self._lost and member.connected()

    def _turn(self) -> None:
        """Once around, whatever fails."""
        self._turned_at = monotonic()
        try:
            member, recorder = self._connected()
            self._round(member, recorder)
        except BrokerLost as error:
            self._without("broker", error)
            member_lost, self._log = self._log, None
            self._held.clear()
            if member_lost is not None:
                member_lost.close()
        except DATABASE_LOST as error:
            self._without("database", error)
            lost, self._recorder = self._recorder, None
            if self._log is not None:
                self._log.halt(self._held)
            self._held.clear()
            if lost is not None:
                lost.close()
        else:
            self._back_off.reset()
            return
        self.stop.wait(self._back_off.next_s())

    def _connected(self) -> tuple[Log, Recorder]:
        if self._recorder is None:
            self._recorder = self._open_recorder()
            self._found("database")
        if self._log is None:
            self._log = self._open_log()
        if self._log.connected():
            self._found("broker")
        elif "broker" not in self._lost:
            self._without("broker", "it does not answer")
        return self._log, self._recorder

    def _without(self, server: str, error: Exception | str) -> None:
        self._lost.add(server)
        log.warning("server_lost", server=server, error=" ".join(str(error).split()))

    def _found(self, server: str) -> None:
        if server in self._lost:
            self._lost.discard(server)
            metrics.RECONNECTS.labels(server).inc()
            log.info("server_found", server=server)

    # --- one round -----------------------------------------------------------------------------------------------

    def _round(self, member: Log, recorder: Recorder) -> None:
        with metrics.timed("poll"):
            found = member.poll(self.plan.poll_s)
        self._release(member)
        for partition in sorted(member.waiting()):
            self._start(member, recorder, partition)
        for partition, messages in found.items():
            if partition in self._held and not self.stop.is_set():
                self._record(member, recorder, partition, messages)
        self._measure(member)
        if self.plan.until_caught_up and not found:
            self._caught_up = self._at_the_end(member)

    def _release(self, member: Log) -> None:
        """Forget what is no longer ours, or has to be started again."""
        for partition in self._held.keys() - (member.assigned() - member.waiting()):
            del self._held[partition]
            metrics.forget_partition(partition)

    def _start(self, member: Log, recorder: Recorder, partition: Partition) -> None:
        """Take a partition over and read on where the database says."""
        first, end = member.bounds(partition)
        db = recorder.connection
        with db.transaction():
            claim = offsets.claim(db, partition, self.owner, first)
            if not first <= claim.next_offset <= end:
                claim = self._skip(db, partition, claim, first, end)
            window = self.plan.limits.window
            known = dead_letters.kept_since(db, partition, claim.next_offset - window, claim.next_offset)
        self._held[partition] = Held(claim, Watch(self.plan.limits, claim.next_offset, known))
        member.start(partition, claim.next_offset)
        log.info("partition_started", partition=str(partition), offset=claim.next_offset, epoch=claim.epoch)

    def _skip(self, db: Db, partition: Partition, claim: Claim, first: int, end: int) -> Claim:
        if not self.plan.skip_lost or claim.next_offset > end:
            raise PositionGone(partition, claim.next_offset, first, end)
        told = f"the log had no messages before {first} any more"
        note = DeadLetter(claim.next_offset, None, b"", second_of(self._clock()), "lost", told)
        dead_letters.keep(db, partition, [note])
        offsets.advance(db, partition, claim, first)
        log.warning("messages_lost", partition=str(partition), offset=claim.next_offset, first=first)
        return Claim(first, claim.epoch)

    def _record(self, member: Log, recorder: Recorder, partition: Partition, messages: Sequence[Message]) -> None:
        held = self._held[partition]
        for batch in self._batches(partition, held, messages):
            with metrics.timed("record"):
                try:
                    self._record_batch(recorder, held, batch)
                except PartitionLost as error:
                    self._drop(member, partition, error)
                    return
            held.claim = Claim(batch.next_offset, held.claim.epoch)
            with metrics.timed("acknowledge"):
                member.acknowledge({partition: batch.next_offset})
            self._note(member, batch)
            if batch.halt:
                raise batch.halt
            if self.stop.is_set():
                return

    def _batches(self, partition: Partition, held: Held, messages: Sequence[Message]) -> Iterator[Batch]:
        """Messages as batches of a bounded size, each read when the one before is recorded."""
        rest = deque(messages)
        while rest:
            with metrics.timed("read"):
                present = second_of(self._clock())
                batch = read_batch(partition, held.claim.next_offset, rest, self.plan.size, held.watch, present)
            yield batch

    def _record_batch(self, recorder: Recorder, held: Held, batch: Batch) -> None:
        def within(db: Db) -> None:
            offsets.advance(db, batch.partition, held.claim, batch.next_offset)
            dead_letters.keep(db, batch.partition, batch.dead)

        if batch.next_offset > held.claim.next_offset:
            outcome = recorder.record_read(batch.partition.door, batch.read, within)
            metrics.note_batch(outcome, sum(early.heard for early in batch.read.early.values()))

    def _drop(self, member: Log, partition: Partition, error: PartitionLost) -> None:
        """Another consumer was here: read again from where the database stands, if the partition is still ours."""
        log.warning("partition_lost", error=str(error))
        metrics.LOST.inc()
        del self._held[partition]
        member.halt([partition])

    # --- telling -------------------------------------------------------------------------------------------------

    def _note(self, member: Log, batch: Batch) -> None:
        for each in batch.dead:
            metrics.DEAD_LETTERS.labels(batch.partition.topic, each.reason).inc()
            place = f"{batch.partition}@{each.offset}"
            log.warning("dead_letter", place=place, reason=each.reason, detail=each.detail)
        lag = max(0, (member.end(batch.partition) or 0) - batch.next_offset)
        metrics.note_partition(batch.partition, lag, max(0, second_of(self._clock()) - batch.latest_s) if lag else 0)

    def _measure(self, member: Log) -> None:
        metrics.ASSIGNED.set(len(self._held))
        for partition, held in self._held.items():
            lag = max(0, (member.end(partition) or 0) - held.claim.next_offset)
            if not lag:
                metrics.note_partition(partition, 0, 0)

    def _at_the_end(self, member: Log) -> bool:
        """Whether all that the log holds of our partitions is recorded."""
        if not self._held or member.waiting():
            return False
        return all(member.position(each) >= member.bounds(each)[1] for each in self._held)
