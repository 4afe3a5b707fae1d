"""Messages of which nothing could be read: kept whole, counted against a limit, and read again after a fix (R26)."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from core.calendar import instant_of
from core.errors import BillingError
from metering.log import Partition
from metering.messages import DeadLetter, read_message
from metering.reading import EARLY_S, Read
from metering.recorder import Outcome, Recorder
from metering.store import Db

KEPT_BYTES: Final = 1 << 20
DOOR: Final = "dead-letters"


@dataclass(frozen=True, slots=True)
class Limits:
    """How many dead letters of a partition stop the consumer: in a row, or as percent of a window of messages."""

    in_a_row: int = 100
    percent: int = 10
    window: int = 1_000


class TooManyDeadLetters(BillingError):
    """What comes is mostly unreadable: whoever writes it, or this program, is at fault, and a person has to look."""

    def __init__(self, partition: Partition, offset: int, why: str, last: DeadLetter) -> None:
        super().__init__(
            f"{partition}: {why}, so nothing more is put aside; offset {offset}: {last.reason}: {last.detail}"
            " (see `gpu-billing dead-letters list`; --dead-letters-in-a-row and --dead-letters-percent set the limits)"
        )


class Watch:
    """The dead letters among the latest messages of a partition; it survives restarts, being read from the table."""

    def __init__(self, limits: Limits, next_offset: int, dead: Iterable[int] = ()) -> None:
        self._limits = limits
        self._dead = deque(sorted(dead))
        self._in_a_row = 0
        for offset in reversed(self._dead):
            if offset != next_offset - 1 - self._in_a_row:
                break
            self._in_a_row += 1

    def readable(self) -> None:
        """Note a message that could be read."""
        self._in_a_row = 0

    def dead(self, offset: int) -> str | None:
        """Note a dead letter; where that is one too many it is not noted, and the answer says why."""
        limits = self._limits
        while self._dead and self._dead[0] <= offset - limits.window:
            self._dead.popleft()
        if self._in_a_row >= limits.in_a_row:
            return f"{self._in_a_row} messages in a row could not be read"
        if (len(self._dead) + 1) * 100 > limits.percent * limits.window:
            return f"{len(self._dead)} of the last {limits.window} messages could not be read"
        self._dead.append(offset)
        self._in_a_row += 1
        return None


def keep(db: Db, partition: Partition, letters: Sequence[DeadLetter]) -> None:
    """Keep dead letters in the transaction of the batch that passes them; one that is kept already stays as it is."""
    if letters:
        rows = [
            (*partition, each.offset, each.key, each.reason, each.detail.replace("\x00", ""), each.received_at,
             len(each.value), each.value[:KEPT_BYTES])
            for each in letters
        ]  # fmt: skip
        db.cursor().executemany(
            'INSERT INTO dead_letter (topic, partition, "offset", key, reason, detail, received_at, length, raw)'
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
            rows,
        )


def kept_since(db: Db, partition: Partition, since: int, until: int) -> list[int]:
    """The offsets in ``[since, until)`` at which dead letters are kept."""
    rows = db.execute(
        'SELECT "offset" FROM dead_letter WHERE topic = %s AND partition = %s AND "offset" >= %s AND "offset" < %s',
        [*partition, since, until],
    )
    return [row[0] for row in rows]


class Kept(NamedTuple):
    """A dead letter as it is kept; the accounts are those that its key's instance has had."""

    id: int
    partition: Partition
    offset: int
    key: bytes | None
    reason: str
    detail: str
    received_at: int
    length: int
    accounts: tuple[str, ...]
    waits: bool
    raw: bytes

    def to_json(self) -> dict[str, Any]:
        """An entry of ``gpu-billing dead-letters list --json``."""
        return {
            "id": self.id, "topic": self.partition.topic, "partition": self.partition.number, "offset": self.offset,
            "key": None if self.key is None else self.key.decode("utf-8", "backslashreplace"),
            "accounts": list(self.accounts), "reason": self.reason, "detail": self.detail,
            "received_at": instant_of(self.received_at).isoformat(), "bytes": self.length, "waits": self.waits,
            "begins": self.raw[:200].decode("utf-8", "backslashreplace"),
        }  # fmt: skip


def listed(db: Db, *, replayed: bool = False, most: int | None = None) -> list[Kept]:
    """Dead letters that wait, or all of them, oldest first."""
    rows = db.execute(
        'SELECT d.id, d.topic, d.partition, d."offset", d.key, d.reason, d.detail, d.received_at, d.length,'
        " ARRAY(SELECT a.account FROM instance i JOIN account_instance a ON a.instance_id = i.id"
        " WHERE convert_to(i.subject, 'UTF8') = d.key ORDER BY a.account),"
        " NOT EXISTS (SELECT FROM dead_letter_replay r WHERE r.dead_letter_id = d.id) AS waits, d.raw"
        " FROM dead_letter d WHERE %s OR NOT EXISTS (SELECT FROM dead_letter_replay r WHERE r.dead_letter_id = d.id)"
        " ORDER BY d.id LIMIT %s",
        [replayed, most],
    )
    return [
        Kept(*(row[0], Partition(row[1], row[2]), *row[3:9], tuple(row[9]), row[10], bytes(row[11])))
        for row in rows.fetchall()
    ]


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of a dead letter that was read again; ``problem`` is why it still waits."""

    letter: Kept
    outcome: Outcome | None
    problem: str | None


@dataclass(frozen=True, slots=True)
class _Again:
    """A dead letter in the shape of a message."""

    offset: int
    key: bytes | None
    value: bytes
    timestamp: int


def replay(recorder: Recorder, letter: Kept) -> Replayed:
    """Read a dead letter again and record what it holds; nothing is deleted, a row says that it waits no longer."""
    if letter.length > len(letter.raw):
        return Replayed(letter, None, f"only {len(letter.raw)} of its {letter.length} bytes were kept")
    read = Read()
    message = _Again(letter.offset, letter.key, letter.raw, letter.received_at * 1000)
    dead = read_message(read, letter.partition, message, letter.received_at, letter.received_at + EARLY_S)
    if dead is not None:
        return Replayed(letter, None, f"{dead.reason}: {dead.detail}")
    outcome = recorder.record_read(DOOR, read)
    with recorder.connection.transaction():
        recorder.connection.execute(
            "INSERT INTO dead_letter_replay (dead_letter_id, received, accepted, duplicate, rejected)"
            " VALUES (%s, %s, %s, %s, %s)",
            [letter.id, outcome.received, outcome.accepted, outcome.duplicate, outcome.rejected],
        )
    return Replayed(letter, outcome, None)
