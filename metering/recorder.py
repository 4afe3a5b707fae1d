"""The recorder: one batch of a door becomes one transaction of the ledger (R22 to R26).

Gather (decode, look up, lock), decide (fold facts onto states), apply (append). Doors meet on an instance's head row,
which is locked in order; whatever is not later than what the head has settled goes through ``Replay``.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from uuid import UUID

from psycopg import errors

from core import collector, copying
from core.database import connect
from core.errors import BillingError
from metering import cards, store
from metering.beats import BatchBeats, keep_early, store_beats
from metering.chain import START as CHAIN_START
from metering.chain import BatchDigest, entry_line, refusals_digest
from metering.decisions import restate
from metering.events import (
    JUDGED,
    RESOLVED,
    RETRACTED,
    Fact,
    Unreadable,
    body_digest,
    is_decision,
    same_body,
)
from metering.faults import NO_RULINGS, PLATFORM, Rulings, needs_ruling, rulings, tells_of_incident
from metering.heads import CHECKPOINT_FACTS, Head, Heads, save_checkpoints, save_heads
from metering.lines import Line
from metering.names import Names
from metering.pieces import Piece, Rounding
from metering.posting import Posted, Slice, slices_of
from metering.proof import NO_PROOF
from metering.reading import Read, read_batch
from metering.replay import Late, Replay, Replayed, finish, fold_from, pad
from metering.state import pack
from metering.store import Db, Span
from metering.terms_store import RATING_LOCK, TermsStore
from metering.ticks import ticks
from metering.timeline import Finding
from pricing.terms import Terms

RETRIES = 5
KEPT_BYTES = 65536
DOOR_LOCK = 0x67625F64
"""First key of the advisory locks that let one batch of a door in at a time."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """An event of a batch that was not accepted: which one by its place in the batch, and why."""

    index: int
    verdict: str
    reason: str
    detail: str
    id: str | None


@dataclass(slots=True)
class Outcome:
    """What became of a batch: received = accepted + duplicate + rejected."""

    received: int = 0
    accepted: int = 0
    duplicate: int = 0
    rejected: int = 0
    refusals: list[Refusal] = field(default_factory=list)

    def add(self, other: "Outcome") -> None:
        """Count another batch in."""
        self.received += other.received
        self.accepted += other.accepted
        self.duplicate += other.duplicate
        self.rejected += other.rejected


@dataclass(frozen=True, slots=True)
class Unproven:
    """An instance that runs, but is proven only up to an instant (R9)."""

    instance: str
    until: int


Within = Callable[[Db], None]
"""Something else that a batch's transaction has to do."""


class BatchRefused(BillingError):
    """A batch met others on the same rows again and again."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"a batch could not be recorded in {RETRIES} tries: {error}")


@dataclass(slots=True)
class _Writes:
    """What a batch appends and replaces."""

    appended: list[tuple[int, Slice]] = field(default_factory=list)
    reversed: list[tuple[int, Posted]] = field(default_factory=list)
    checkpoints: list[tuple[int, int, bytes]] = field(default_factory=list)
    findings: list[tuple[int, Finding]] = field(default_factory=list)
    heads: dict[int, Head] = field(default_factory=dict)


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
        try:
            with self._db.transaction():
                self._rerate(list(instances), since)
        except BaseException:
            self._heads.forget()
            raise

    def _rerate(self, instances: Sequence[int], since: Mapping[int, int] | int) -> None:
        batch = _Batch(self, "terms")
        heads = self._heads.lock(self._db, instances)
        late = {
            number: Late(head, since if isinstance(since, int) else since[number], store_last(head), forced=True)
            for number, head in heads.items() if head.settled >= 0
        }  # fmt: skip
        batch.replay(late)
        batch.write(Outcome(), [], BatchBeats(), [])
        self._db.execute("DELETE FROM rerating WHERE instance_id = ANY(%s)", [instances])

    def accrue(self, until_of: Callable[[str], int]) -> list["Unproven"]:
        """Post what runs, up to an instant by account or to its latest proof (R9); returns what is not proven so far."""
        with self._db.transaction():
            batch = _Batch(self, "accrual")
            rows = self._db.execute("SELECT instance_id FROM head WHERE running").fetchall()
            heads = self._heads.lock(self._db, (row[0] for row in rows))
            reached = batch.accrue(heads, until_of)
            if batch.changed:
                batch.write(Outcome(), [], BatchBeats(), [])
            subjects = self._names.subjects_of(reached)
            return [Unproven(subjects[number], until) for number, until in sorted(reached.items())]

    # --- one batch -----------------------------------------------------------------------------------------------

    def _record(self, door: str, read: Read, numbers: Mapping[str, int]) -> Outcome:
        batch = _Batch(self, door)
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


def store_last(head: Head) -> int:
    """The instant from which a forced replay may stop: never before the head."""
    return head.settled


class _Batch:
    """One transaction of a door."""

    def __init__(self, recorder: Recorder, door: str) -> None:
        self._db, self._names = recorder._db, recorder._names  # noqa: SLF001  # one module, one class in two parts
        self._door = door
        self._door_id = self._find_door(recorder._doors)  # noqa: SLF001
        # The locks come before the terms: new terms are recorded while no batch is under way with older ones.
        self._db.execute(
            "SELECT pg_advisory_xact_lock(%s, %s), pg_advisory_xact_lock_shared(%s)",
            [DOOR_LOCK, self._door_id, RATING_LOCK],
        )
        self.terms: Terms = recorder._terms.load(self._db)  # noqa: SLF001
        self._join_s, self._reach_s = recorder._terms.timeouts()  # noqa: SLF001
        last = self._db.execute(
            "SELECT number, digest FROM batch WHERE door_id = %s ORDER BY number DESC LIMIT 1", [self._door_id]
        ).fetchone()
        self._number: int = last[0] + 1 if last else 1
        previous: bytes = last[1] if last else CHAIN_START
        self._digest = BatchDigest(previous)
        self.id = store.take_numbers(self._db, "batch_id_seq", 1)[0]
        self._rulings: dict[int, Rulings] = {}
        self._late: dict[int, Late] = {}
        self._writes = _Writes()
        self._refused: list[tuple[str, bytes]] = []
        self._disputed: set[bytes] = set()

    def _find_door(self, known: dict[str, int]) -> int:
        if self._door not in known:
            aside = self._names.connection
            aside.execute("INSERT INTO door (name) VALUES (%s) ON CONFLICT DO NOTHING", [self._door])
            row = aside.execute("SELECT id FROM door WHERE name = %s", [self._door]).fetchone()
            assert row is not None
            known[self._door] = row[0]
        return known[self._door]

    # --- gather --------------------------------------------------------------------------------------------------

    def admit(self, read: Read, numbers: Mapping[str, int], outcome: Outcome) -> list[Fact]:
        """Tell accepted events from duplicates and conflicts, by identity and body (R25)."""
        for index, _, fault in read.unreadable:
            outcome.rejected += 1
            outcome.refusals.append(Refusal(index, "rejected", fault.reason, fault.detail, fault.id))
        identities = {fact.identity() for _, fact in read.facts}
        stored = store.known_events(self._db, [identity.hex() for identity in identities])
        accepted: list[Fact] = []
        for index, fact in read.facts:
            identity = fact.identity()
            known = stored.get(identity)
            if known is None:
                stored[identity] = fact.raw
                accepted.append(fact)
                outcome.accepted += 1
            elif same_body(known, fact.raw):
                outcome.duplicate += 1
                outcome.refusals.append(Refusal(index, "duplicate", "duplicate", "known already", fact.id))
            else:
                outcome.rejected += 1
                detail = f"{fact.source}#{fact.id} came with another body before; this one has digest {body_digest(fact.raw)}"
                outcome.refusals.append(Refusal(index, "rejected", "conflict", detail, fact.id))
                self._keep_conflict(identity, fact, numbers[fact.subject])
        return accepted

    def _keep_conflict(self, identity: bytes, fact: Fact, instance: int) -> None:
        digest = bytes.fromhex(body_digest(fact.raw))
        self._refused.append(("conflict", digest))
        self._disputed.add(identity)
        self._db.execute(
            "INSERT INTO conflict (identity, digest, batch_id, instance_id, raw) VALUES (%s, %s, %s, %s, %s)"
            " ON CONFLICT DO NOTHING",
            [UUID(bytes=identity), digest, self.id, instance, fact.raw],
        )

    def rule(self, heads: Mapping[int, Head], by_instance: Mapping[int, list[Fact]]) -> None:
        """Find the verdicts that the batch's facts need; where one changes, its time is late (R7, R3)."""
        needing = {n: [f for f in facts if needs_ruling(f)] for n, facts in by_instance.items()}
        names = {(n, f.name) for n, facts in needing.items() for f in facts if f.name is not None}
        others = {(n, f.name or "") for n, facts in by_instance.items() for f in facts if tells_of_incident(f)} - names
        if others:
            names |= store.judged(self._db, others)
        if not names:
            return
        prior = store.facts_named(self._db, names)
        judged = {(n, f.name or "") for n, facts in needing.items() for f in facts if f.kind == JUDGED}
        for number, facts in (store.exclusions_named(self._db, judged) if judged else {}).items():
            prior[number] = [*prior.get(number, []), *facts]
        for number in {number for number, _ in names}:
            earlier = prior.get(number, [])
            after = self._rulings[number] = rulings([*earlier, *needing[number]])
            if earlier:
                self._note_changes(number, heads[number], earlier, rulings(earlier), after)

    def _note_changes(self, number: int, head: Head, earlier: list[Fact], old: Rulings, new: Rulings) -> None:
        touched = [f for f in earlier if ((f.source, f.id) in old.negative) != ((f.source, f.id) in new.negative)]
        tables = self.terms.xid_tables()
        for key, verdict in new.incidents.items():
            if verdict.differs(old.incidents.get(key, PLATFORM), tables):
                touched += [f for f in earlier if f.kind in (key[0], key[0] + 10) and f.name == key[1]]
        if touched:
            self._mark(number, head, (fact.second for fact in touched))

    def _mark(self, number: int, head: Head, seconds: Iterable[int]) -> None:
        """Note that an instance has to be replayed over some seconds."""
        listed = list(seconds)
        known = self._late.setdefault(number, Late(head, listed[0], listed[0]))
        known.since = min(known.since, *listed)
        known.until = max(known.until, *listed)

    def store_events(self, facts: Sequence[Fact], numbers: Mapping[str, int]) -> None:
        """Number the accepted events and keep them as they came."""
        rows = []
        for seq, fact in zip(store.take_numbers(self._db, "event_seq", len(facts)), facts, strict=True):
            fact.seq = seq
            identity = fact.identity()
            values = (seq, identity, self.id, numbers[fact.subject], fact.second, fact.kind)
            rows.append(store.EVENT_LAYOUT.row(values, copying.text(fact.name), copying.blob(fact.raw)))
        if rows:
            copying.copy_rows(self._db, "event", store.EVENT_COLUMNS, rows)

    def restate(self, facts: Sequence[Fact], heads: Mapping[int, Head]) -> None:
        """A person's decisions change which events stand; the instances they touch are late."""
        decisions = [fact for fact in facts if fact.kind in (RETRACTED, RESOLVED)]
        identities = self._disputed.union(fact.identity() for fact in facts)
        places = restate(self._db, self._names, decisions, identities)
        if not places:
            return
        locked = {**heads, **Heads().lock(self._db, {number for number, _ in places} - heads.keys())}
        ruled = {(number, fact.name) for number, fact in places if needs_ruling(fact) and fact.name is not None}
        for standing in (store.facts_named, store.exclusions_named) if ruled else ():
            places += [(number, fact) for number, facts in standing(self._db, ruled).items() for fact in facts]
        for number, fact in places:
            if not is_decision(fact.kind):
                self._mark(number, locked[number], [fact.second])

    def hear(self, beats: BatchBeats, heads: Mapping[int, Head]) -> None:
        """Keep the heartbeats; proof of settled time makes an instance late."""
        if not beats.count:
            return
        new = store_beats(self._db, beats, self._join_s, self._reach_s)
        for number in beats.instances():
            if not heads[number].beats:
                old = heads[number]
                fresh = Head(old.version, old.posted, old.facts, True, old.state)
                self._writes.heads[number] = fresh
                if number in self._late:
                    self._late[number].head = fresh
        for number, news in new.items():
            head = self._writes.heads.get(number, heads[number])
            settled = [second for second in news.seconds if second <= head.settled]
            settled += [
                second for name, second in news.edges
                if second <= head.settled and (settled or not head.state.ran_at(name or None, second))
            ]  # fmt: skip
            if settled:
                self._mark(number, head, settled)

    # --- decide --------------------------------------------------------------------------------------------------

    def fold(self, heads: Mapping[int, Head], by_instance: Mapping[int, list[Fact]]) -> None:
        """Fold facts in order onto their heads; replay the instances that have late ones."""
        in_order: dict[int, list[Fact]] = {}
        for number, facts in by_instance.items():
            head = self._writes.heads.get(number, heads[number])
            moving = [fact for fact in facts if fact.kind < RETRACTED]
            late = [fact.second for fact in moving if fact.second <= head.settled]
            if late:
                self._mark(number, head, late)
            if number in self._late:
                if moving:
                    self._mark(number, head, (moving[0].second, moving[-1].second))
            elif moving:
                in_order[number] = moving
        self._fold_in_order({n: self._writes.heads.get(n, heads[n]) for n in in_order}, in_order)
        if self._late:
            self.replay(self._late)

    def _fold_in_order(self, heads: Mapping[int, Head], by_instance: Mapping[int, list[Fact]]) -> None:
        beating = [(number, head.state.second) for number, head in heads.items() if head.beats]
        proofs = store.proofs_since(self._db, beating) if beating else {}
        writes, terms = self._writes, self.terms
        rounded: list[tuple[int, Head, Rounding, list[Piece]]] = []
        for number, facts in by_instance.items():
            head = heads[number]
            verdicts = self._rulings.get(number, NO_RULINGS)
            fold = fold_from(head.state, terms, verdicts, proofs.get(number, NO_PROOF), facts)
            since_checkpoint = head.facts
            for second, own in ticks(facts, fold.proof, head.state.second, facts[-1].second):
                fold.tick(second, own)
                since_checkpoint += len(own)
                if since_checkpoint >= CHECKPOINT_FACTS:
                    writes.checkpoints.append((number, second, pack(fold.state)))
                    since_checkpoint = 0
            for each in slices_of(fold.pieces, terms, head.posted):
                writes.appended.append((number, each))
            if fold.findings:
                writes.findings += [(number, finding) for finding in fold.findings]
            rounded += [(number, head, each, fold.pieces) for each in fold.roundings]
            writes.heads[number] = Head(
                head.version, max(head.posted, fold.state.second), since_checkpoint, head.beats, fold.state
            )
        if rounded:
            self._pad(rounded)

    def _pad(self, rounded: Sequence[tuple[int, Head, Rounding, list[Piece]]]) -> None:
        asked = [(number, each.run, head.state.second) for number, head, each, _ in rounded if each.run <= head.state.second]
        earlier = store.billable_before(self._db, asked) if asked else {}
        padding = [(number, pad(each, pieces, earlier.get((number, each.run), ()))) for number, _, each, pieces in rounded]
        for number, piece in padding:
            self._writes.appended += [(number, each) for each in slices_of([piece], self.terms)]

    def replay(self, late: dict[int, Late]) -> None:
        """Replay late instances and note what changes."""
        results = Replay(self._db, self._names, self.terms).run(late)
        drop, windows = [], []
        for number, result in results.items():
            self._take(number, result)
            start, end = result.window.start, result.window.end
            drop.append(Span(number, start, end if result.head is None else 2**62))
            windows.append(Span(number, start, end))
            self._writes.heads[number] = result.head or self._writes.heads.get(number, late[number].head)
        store.drop_checkpoints(self._db, drop)
        store.drop_findings(self._db, windows)

    def _take(self, number: int, result: Replayed) -> None:
        writes = self._writes
        writes.reversed += [(number, entry) for entry in result.change.reversed]
        writes.appended += [(number, each) for each in result.change.appended]
        writes.checkpoints += [(number, second, state) for second, state in result.checkpoints]
        writes.findings += [(number, finding) for finding in result.findings]

    def accrue(self, heads: Mapping[int, Head], until_of: Callable[[str], int]) -> dict[int, int]:
        """Post what runs up to an instant by account; the states stay. Returns where proof ends before the instant."""
        beating = [(number, head.state.second) for number, head in heads.items() if head.beats]
        proofs = store.proofs_since(self._db, beating) if beating else {}
        unproven = {}
        for number, head in heads.items():
            until = until_of(head.state.account)
            if head.settled >= until:
                continue
            fold = fold_from(head.state, self.terms, NO_RULINGS, proofs.get(number, NO_PROOF), ())
            reached = finish(fold, until)
            if reached < until:
                unproven[number] = reached
            slices = slices_of(fold.pieces, self.terms, head.posted)
            if slices and reached > head.posted:
                self._writes.appended += [(number, each) for each in slices]
                self._writes.heads[number] = Head(head.version, reached, head.facts, head.beats, head.state)
        return unproven

    @property
    def changed(self) -> bool:
        """Whether there is anything to append."""
        return bool(self._writes.appended or self._writes.reversed)

    # --- apply ---------------------------------------------------------------------------------------------------

    def write(
        self, outcome: Outcome, accepted: Sequence[Fact], beats: BatchBeats,
        unreadable: Sequence[tuple[int, Line, Unreadable]],
    ) -> None:  # fmt: skip
        """Append everything and close the batch with its link of the chain."""
        counts = (outcome.received, outcome.accepted, outcome.duplicate, outcome.rejected, beats.count)
        self._digest.head(self._door, self._number, counts)
        for fact in accepted:
            self._digest.event(fact.seq, fact.identity(), fact.raw)
        entries = self._write_entries()
        writes = self._writes
        save_checkpoints(self._db, writes.checkpoints)
        store.add_findings(self._db, writes.findings)
        if writes.heads:
            save_heads(self._db, writes.heads, self.id)
        self._write_rejects(unreadable)
        refused = refusals_digest(self._refused)
        self._digest.refused(refused)
        self._digest.beats(beats.digest())
        self._db.execute(
            "INSERT INTO batch (id, door_id, number, received, accepted, duplicate, rejected, heartbeats, first_entry,"
            " last_entry, refused, beats, digest) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            [
                self.id, self._door_id, self._number, *counts, entries[0] if entries else 0,
                entries[-1] + 1 if entries else 0, refused, beats.digest(), self._digest.digest(),
            ],
        )  # fmt: skip

    def _write_entries(self) -> list[int]:
        """Reversals first, then what is appended; their sums go into the daily projection."""
        writes, names = self._writes, self._names
        changes = [(number, entry.slice, entry.id) for number, entry in writes.reversed]
        rows: list[tuple[int, Slice, int | None]] = [*changes, *((number, each, None) for number, each in writes.appended)]
        if not rows:
            return []
        ids = store.take_numbers(self._db, "entry_id_seq", len(rows))
        series = names.number_series({each.piece.series for _, each, _ in rows})
        # Prices go by the object here, not by their value: to hash a fraction takes as long as to write a row.
        amounts = {id(each.piece.price): each.piece.price for _, each, _ in rows}
        known = names.number_prices(amounts.values())
        prices = {key: known[amount] for key, amount in amounts.items()}
        subjects = names.subjects_of({number for number, _, _ in rows})
        names.note_account_instances({(each.piece.series.account, number) for number, each, _ in rows})
        sums: dict[tuple[int, int, int, int], int] = defaultdict(int)
        encoded = []
        for entry, (number, (day, piece), reverses) in zip(ids, rows, strict=True):
            if reverses is not None:
                piece = piece._replace(quantity=-piece.quantity)  # noqa: PLW2901  # the row's own sign
            series_id, price_id = series[piece.series], prices[id(piece.price)]
            sums[(series_id, price_id, piece.kind, day)] += piece.quantity
            self._digest.entry(entry_line(entry, subjects[number], day, piece, reverses))
            encoded.append(_entry_row(entry, self.id, number, series_id, price_id, day, piece, reverses))
        copying.copy_rows(self._db, "entry", store.ENTRY_COLUMNS, encoded)
        deltas = [store.USAGE_LAYOUT.row((self.id, *key, quantity)) for key, quantity in sums.items() if quantity]
        copying.copy_rows(self._db, "usage_day", store.USAGE_COLUMNS, deltas)
        return ids

    def _write_rejects(self, unreadable: Sequence[tuple[int, Line, Unreadable]]) -> None:
        rows = []
        for _, line, fault in unreadable:
            digest = sha256(line.raw).digest()
            self._refused.append((fault.reason, digest))
            rows.append(
                (digest, self.id, line.position, fault.reason, fault.detail.replace("\x00", ""), fault.id,
                 line.length, line.raw[:KEPT_BYTES])
            )  # fmt: skip
        if rows:
            self._db.cursor().executemany(
                "INSERT INTO reject (digest, batch_id, position, reason, detail, event_id, length, raw)"
                " VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
                rows,
            )


def _entry_row(
    entry: int, batch: int, instance: int, series: int, price: int, day: int, piece: Piece, reverses: int | None
) -> bytes:
    held = piece.pack
    return store.ENTRY_LAYOUT.row(
        (entry, batch, instance, series, price, piece.kind, day, piece.start, piece.end, piece.quantity, piece.run),
        copying.int8(held.start if held else None),
        copying.int4(held.seconds if held else None),
        copying.int8(reverses),
        copying.text(cards.text(piece.cards)),
        copying.int8_array(piece.evidence),
    )


