"""The recorder: one batch of a door becomes one transaction of the ledger (R22 to R26).

Gather (decode, look up, lock), decide (fold facts onto states), apply (append). Doors meet on an instance's head row,
which is locked in order; whatever is not later than what the head has settled goes through ``Replay``.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from psycopg import errors

from core import collector
from core.database import connect
from core.errors import BillingError
from metering.batch import Batch
from metering.beats import BatchBeats, keep_early
from metering.events import (
    Fact,
)
from metering.heads import Heads
from metering.lines import Line
from metering.link import Link
from metering.names import Names
from metering.outcome import Outcome, Refusal, Unproven
from metering.reading import Read, read_batch
from metering.replay import Late
from metering.store import Db
from metering.terms_store import RATING_LOCK, TermsStore

__all__ = ["BatchRefused", "Outcome", "Recorder", "Refusal", "Unproven", "Within"]

RETRIES = 5
DOOR_LOCK = 0x67625F64
"""First key of the advisory locks that let one batch of a door in at a time."""

Within = Callable[[Db], None]
"""Something else that a batch's transaction has to do."""


class BatchRefused(BillingError):
    """A batch met others on the same rows again and again."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"a batch could not be recorded in {RETRIES} tries: {error}")


class Recorder:
    """Records batches of one door at a time; its caches are its own, so use one in each process or thread."""

    def __init__(self, url: str) -> None:
        self._db: Db = connect(url)
        self._aside: Db = connect(url)
        self._aside.autocommit = True
        self._names = Names(self._aside)
        self._heads = Heads()
        self._terms = TermsStore()
        self._doors: dict[str, int] = {}

    @property
    def connection(self) -> Db:
        """The connection that batches are recorded on; in no transaction between them."""
        return self._db

    @property
    def names(self) -> Names:
        """The names that this recorder has looked up."""
        return self._names

    def close(self) -> None:
        """Let the connections go."""
        self._db.close()
        self._aside.close()

    def record(
        self, door: str, lines: Sequence[Line], within: Within = lambda _: None, received_at: int | None = None
    ) -> Outcome:
        """Record a batch of events; ``received_at`` is the second at which a stream received them."""
        with collector.paused():
            return self.record_read(door, read_batch(lines, received_at), within)

    def record_read(self, door: str, read: Read, within: Within = lambda _: None) -> Outcome:
        """Record a batch in one transaction; a batch that meets another on new rows is tried again.

        ``within`` is called first inside the transaction: a consumer moves its offset there, and raises if the
        partition is no longer its own.
        """
        numbers = self._names.instances(read.subjects())
        for attempt in range(RETRIES):
            try:
                with collector.paused(), self._db.transaction():
                    within(self._db)
                    return self._record(door, read, numbers)
            except (errors.UniqueViolation, errors.DeadlockDetected, errors.SerializationFailure) as error:
                self._heads.forget()
                if attempt == RETRIES - 1:
                    raise BatchRefused(error) from error
            except BaseException:
                self._heads.forget()
                raise
        raise AssertionError("unreachable")

    def rerate(self, instances: Iterable[int], since: Mapping[int, int] | int) -> None:
        """Rate instances again from an instant on, after terms have changed; they no longer wait for it then."""
        with self._transaction():
            self._rerate(list(instances), since)

    def _rerate(self, instances: Sequence[int], since: Mapping[int, int] | int) -> None:
        batch = self._batch("terms")
        heads = self._heads.lock(self._db, instances)
        late = {
            number: Late(head, since if isinstance(since, int) else since[number], head.settled, forced=True)
            for number, head in heads.items() if head.settled >= 0
        }  # fmt: skip
        batch.replay(late)
        batch.write(Outcome(), [], BatchBeats(), [])
        self._db.execute("DELETE FROM rerating WHERE instance_id = ANY(%s)", [instances])

    def accrue(self, until_of: Callable[[str], int]) -> list["Unproven"]:
        """Post what runs, up to an instant by account or to its latest proof (R9); returns what is not proven."""
        with self._transaction():
            batch = self._batch("accrual")
            rows = self._db.execute("SELECT instance_id FROM head WHERE running").fetchall()
            heads = self._heads.lock(self._db, (row[0] for row in rows))
            reached = batch.accrue(heads, until_of)
            if batch.changed:
                batch.write(Outcome(), [], BatchBeats(), [])
            subjects = self._names.subjects_of(reached)
            return [Unproven(subjects[number], until) for number, until in sorted(reached.items())]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """A transaction; whatever ends it early, heads are read anew afterwards."""
        try:
            with self._db.transaction():
                yield
        except BaseException:
            self._heads.forget()
            raise

    def _batch(self, door: str) -> Batch:
        """A batch of a door, which waits for the one before it."""
        number = self._find_door(door)
        # The locks come before the terms: new terms are recorded while no batch is under way with older ones.
        self._db.execute(
            "SELECT pg_advisory_xact_lock(%s, %s), pg_advisory_xact_lock_shared(%s)", [DOOR_LOCK, number, RATING_LOCK]
        )
        terms = self._terms.load(self._db)
        link = Link(self._db, self._names, door, number)
        return Batch(self._db, self._names, terms, self._terms.timeouts(), link)

    def _find_door(self, door: str) -> int:
        if door not in self._doors:
            self._aside.execute("INSERT INTO door (name) VALUES (%s) ON CONFLICT DO NOTHING", [door])
            row = self._aside.execute("SELECT id FROM door WHERE name = %s", [door]).fetchone()
            assert row is not None
            self._doors[door] = row[0]
        return self._doors[door]

    # --- one batch -----------------------------------------------------------------------------------------------

    def _record(self, door: str, read: Read, numbers: Mapping[str, int]) -> Outcome:
        batch = self._batch(door)
        beats = BatchBeats.of(read, numbers)
        involved = {numbers[fact.subject] for _, fact in read.facts} | beats.instances()
        heads = self._heads.lock(self._db, involved)
        outcome = Outcome(received=read.received, accepted=read.heard)
        accepted = batch.admit(read, numbers, outcome)
        by_instance: dict[int, list[Fact]] = defaultdict(list)
        for fact in accepted:
            by_instance[numbers[fact.subject]].append(fact)
        for facts in by_instance.values():
            facts.sort(key=Fact.order)
        batch.rule(heads, by_instance)
        batch.store_events(accepted, numbers)
        batch.restate(accepted, heads)
        batch.hear(beats, heads)
        keep_early(self._db, {numbers[subject]: early for subject, early in read.early.items()})
        batch.fold(heads, by_instance)
        batch.write(outcome, accepted, beats, read.unreadable)
        return outcome
