"""The log as Kafka keeps it.

kafka-python calls the rebalance listener on its own thread while a poll waits for the group, so the listener only notes
what was assigned, at no offset at all; the consumer's thread starts partitions where the database says. Auto-commit
stays off: Kafka is told what is recorded, and is never asked.
"""

from collections.abc import Iterable, Mapping, Sequence
from time import monotonic
from typing import Any, Final

import structlog
from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.base import MemberState
from kafka.errors import (
    AuthorizationError,
    CorruptRecordError,
    KafkaConfigurationError,
    KafkaError,
    LogTruncationError,
    OffsetOutOfRangeError,
    SaslAuthenticationFailedError,
    UnsupportedCodecError,
    UnsupportedVersionError,
)
from kafka.structs import OffsetAndMetadata

from metering.log import BrokerLost, LogUnusable, Message, Partition

HEARTBEAT_MS: Final = 3_000
SILENT_S: Final = 4 * HEARTBEAT_MS / 1000
"""A broker that has heard nothing from us for so long cannot be reached."""

JOIN_S: Final = 3.0
"""A poll lasts at least so long while the group forms: kafka-python 3.0 can lose a join that ends between two polls."""

STUCK_S: Final = 15.0
"""A join that takes longer was lost, or waits for a member that hangs: leaving and joining again mends the one, and
does no harm to the other."""

REQUEST_MS: Final = 10_000
COMMIT_S: Final = 1.0
"""Kafka is told of offsets at most this often."""

SETTINGS: Final[dict[str, Any]] = {
    "enable_auto_commit": False, "auto_offset_reset": "none", "allow_auto_create_topics": False,
    "isolation_level": "read_committed", "heartbeat_interval_ms": HEARTBEAT_MS, "session_timeout_ms": 15_000,
    "max_poll_interval_ms": 300_000, "max_partition_fetch_bytes": 8 << 20, "fetch_max_bytes": 32 << 20,
    "fetch_max_wait_ms": 250, "request_timeout_ms": REQUEST_MS, "reconnect_backoff_max_ms": 5_000,
    "bootstrap_timeout_ms": REQUEST_MS,
}  # fmt: skip

LASTING: Final = (
    AuthorizationError, CorruptRecordError, KafkaConfigurationError, LogTruncationError, SaslAuthenticationFailedError,
    UnsupportedCodecError, UnsupportedVersionError,
)  # fmt: skip
"""What waiting does not mend. All else, losing the group included, is mended by joining again."""

log = structlog.get_logger(__name__)


class AutoCommitRefused(LogUnusable):
    """Kafka would count messages as consumed that were never recorded."""

    def __init__(self) -> None:
        super().__init__("enable_auto_commit must stay off: offsets live in the database, with what was recorded")


class KafkaLog(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """A member of a consumer group; ``settings`` are kafka-python's own, on top of ``SETTINGS``."""

    def __init__(
        self, servers: str, topic: str, group: str, most_messages: int = 5_000,
        settings: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        wanted = {**SETTINGS, **(settings or {})}
        if wanted["enable_auto_commit"]:
            raise AutoCommitRefused
        self._most = most_messages
        self._waiting: set[TopicPartition] = set()
        self._recorded: dict[TopicPartition, int] = {}
        self._told_at = 0.0
        self._heard_at = self._stable_at = monotonic()
        try:
            self._consumer = KafkaConsumer(bootstrap_servers=servers.split(","), group_id=group, **wanted)
            if not self._consumer.partitions_for_topic(topic):  # also: joining waits for what it has to share out
                log.warning("topic_missing", topic=topic)
            self._consumer.subscribe([topic], listener=self)
        except KafkaError as error:
            raise _fault(error) from error

    # --- called by kafka-python ----------------------------------------------------------------------------------

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Nothing to save: what is recorded is in the database, and what is not will be read by the next owner."""
        self._waiting.difference_update(revoked)

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Hold them where they are; the offset is a placeholder that keeps Kafka's own offsets out."""
        for each in assigned:
            self._consumer.pause(each)
            self._consumer.seek(each, 0)
            self._waiting.add(each)

    # --- the log -------------------------------------------------------------------------------------------------

    def poll(self, timeout_s: float) -> Mapping[Partition, Sequence[Message]]:
        """Messages of started partitions."""
        patience_s = timeout_s if self._stable() else max(timeout_s, JOIN_S)
        try:
            found = self._consumer.poll(timeout_ms=int(patience_s * 1000), max_records=self._most)
        except OffsetOutOfRangeError as error:
            self.halt(_partition(each) for each in error.args[0])  # whoever starts them again sees why
            return {}
        except KafkaError as error:
            raise _fault(error) from error
        if found:
            self._heard_at = monotonic()
        if not self._stable() and monotonic() - self._stable_at > STUCK_S:
            raise BrokerLost(f"the group has not formed within {STUCK_S:g} s")
        self._tell()
        return {_partition(each): messages for each, messages in found.items()}

    def assigned(self) -> set[Partition]:
        """The partitions that are ours."""
        return {_partition(each) for each in self._consumer.assignment()}

    def waiting(self) -> set[Partition]:
        """Those that have to be started."""
        return {_partition(each) for each in self._waiting & self._consumer.assignment()}

    def start(self, partition: Partition, offset: int) -> None:
        """Deliver from an offset on; one that is taken away at this moment is left alone."""
        wanted = TopicPartition(*partition)
        if wanted in self._consumer.assignment():
            self._consumer.seek(wanted, offset)
            self._consumer.resume(wanted)
        self._waiting.discard(wanted)

    def halt(self, partitions: Iterable[Partition]) -> None:
        """Deliver nothing until started again."""
        halted = {TopicPartition(*each) for each in partitions} & self._consumer.assignment()
        self._consumer.pause(*halted)
        self._waiting |= halted

    def bounds(self, partition: Partition) -> tuple[int, int]:
        """The first offset and the one after the last."""
        wanted = TopicPartition(*partition)
        try:
            first = self._consumer.beginning_offsets([wanted], timeout_ms=REQUEST_MS)[wanted]
            return first, self._consumer.end_offsets([wanted], timeout_ms=REQUEST_MS)[wanted]
        except KafkaError as error:
            raise _fault(error) from error

    def position(self, partition: Partition) -> int:
        """The offset that is delivered next."""
        try:
            return self._consumer.position(TopicPartition(*partition), timeout_ms=REQUEST_MS) or 0
        except KafkaError as error:
            raise _fault(error) from error

    def end(self, partition: Partition) -> int | None:
        """The offset after the last message that a fetch has told of."""
        wanted = TopicPartition(*partition)
        found: int | None = self._consumer.highwater(wanted) if wanted in self._consumer.assignment() else None
        return found

    def acknowledge(self, offsets: Mapping[Partition, int]) -> None:
        """Remember what is recorded and tell Kafka of it now and then."""
        self._recorded.update((TopicPartition(*each), offset) for each, offset in offsets.items())
        self._tell()

    def connected(self) -> bool:
        """Whether the broker has heard from us, or we from it, lately."""
        if monotonic() - self._heard_at < SILENT_S:
            return True
        figures = self._consumer.metrics() or {}
        ago = figures.get("consumer-coordinator-metrics", {}).get("last-heartbeat-seconds-ago", SILENT_S)
        return bool(ago < SILENT_S)

    def _stable(self) -> bool:
        """Whether the group has formed and we are in it."""
        stable = self._consumer.group_metadata().state is MemberState.STABLE
        if stable:
            self._stable_at = monotonic()
        return stable

    def close(self) -> None:
        """Leave the group, at the end of a last word on what is recorded."""
        try:
            self._tell(at_once=True)
            self._consumer.close(autocommit=False, timeout_ms=2_000)
        except KafkaError as error:
            log.info("left_without_a_word", error=str(error))

    def _tell(self, at_once: bool = False) -> None:
        if not self._recorded or not (at_once or monotonic() - self._told_at >= COMMIT_S):
            return
        ours = self._consumer.assignment()
        offsets = {each: OffsetAndMetadata(offset, "", -1) for each, offset in self._recorded.items() if each in ours}
        self._recorded.clear()
        self._told_at = monotonic()
        try:
            if offsets and at_once:
                self._consumer.commit(offsets, timeout_ms=2_000)
            elif offsets:
                self._consumer.commit_async(offsets)
        except KafkaError as error:  # the next word will say the same and more
            log.debug("offsets_not_told", error=str(error))


def _partition(found: TopicPartition) -> Partition:
    return Partition(found.topic, found.partition)


def _fault(error: KafkaError) -> BrokerLost | LogUnusable:
    """Whether waiting may help."""
    told = str(error) or type(error).__name__
    return LogUnusable(told) if isinstance(error, LASTING) else BrokerLost(told)


def ends(servers: str, partitions: Sequence[Partition]) -> dict[Partition, int]:
    """The offsets after the last messages; nothing where the broker does not answer within seconds."""
    wanted = {TopicPartition(*each): each for each in partitions}
    try:
        consumer = KafkaConsumer(bootstrap_servers=servers.split(","), bootstrap_timeout_ms=3_000)
        try:
            found = consumer.end_offsets(list(wanted), timeout_ms=3_000)
        finally:
            consumer.close(timeout_ms=1_000)
    except KafkaError:
        return {}
    return {wanted[each]: offset for each, offset in found.items()}
