"""One batch inside its transaction: gather what is known, decide what its facts change (R22 to R26).

The methods are the steps, in the order in which ``Recorder`` takes them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from uuid import UUID

from core import copying
from metering import store
from metering.beats import BatchBeats, store_beats
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
from metering.heads import CHECKPOINT_FACTS, Head, Heads
from metering.lines import Line
from metering.link import Link, Writes
from metering.names import Names
from metering.outcome import Outcome, Refusal
from metering.pieces import Piece, Rounding
from metering.posting import slices_of
from metering.proof import NO_PROOF
from metering.reading import Read
from metering.replay import Late, Replay, Replayed, finish, fold_from, pad
from metering.state import pack
from metering.store import Db, Span
from metering.ticks import ticks
from pricing.terms import Terms


class Batch:
    """One transaction of a door: what its facts change, from what is known already."""

    def __init__(
        self, db: Db, names: Names, terms: Terms, timeouts: tuple[int, int], link: Link
    ) -> None:  # fmt: skip
        self._db, self._names, self.terms, self.link = db, names, terms, link
        self._join_s, self._reach_s = timeouts
        self._rulings: dict[int, Rulings] = {}
        self._late: dict[int, Late] = {}
        self._writes = Writes()
        self._disputed: set[bytes] = set()

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
                digest = body_digest(fact.raw)
                detail = f"{fact.source}#{fact.id} came with another body before; this one has digest {digest}"
                outcome.refusals.append(Refusal(index, "rejected", "conflict", detail, fact.id))
                self._keep_conflict(identity, fact, numbers[fact.subject])
        return accepted

    def _keep_conflict(self, identity: bytes, fact: Fact, instance: int) -> None:
        digest = bytes.fromhex(body_digest(fact.raw))
        self.link.refused.append(("conflict", digest))
        self._disputed.add(identity)
        self._db.execute(
            "INSERT INTO conflict (identity, digest, batch_id, instance_id, raw) VALUES (%s, %s, %s, %s, %s)"
            " ON CONFLICT DO NOTHING",
            [UUID(bytes=identity), digest, self.link.id, instance, fact.raw],
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
            values = (seq, identity, self.link.id, numbers[fact.subject], fact.second, fact.kind)
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
        asked = [
            (number, each.run, head.state.second) for number, head, each, _ in rounded if each.run <= head.state.second
        ]
        earlier = store.billable_before(self._db, asked) if asked else {}
        padding = [
            (number, pad(each, pieces, earlier.get((number, each.run), ()))) for number, _, each, pieces in rounded
        ]
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

    def write(
        self, outcome: Outcome, accepted: Sequence[Fact], beats: BatchBeats,
        unreadable: Sequence[tuple[int, Line, Unreadable]],
    ) -> None:  # fmt: skip
        """Append everything and close the batch with its link of the chain."""
        self.link.write(self._writes, outcome, accepted, beats, unreadable)
