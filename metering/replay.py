"""Late facts: replay an instance from the checkpoint before them until its state agrees with a later one (R22, R24).

Work is done in rounds over all late instances of a batch, so that each round is a handful of statements. An instance
whose replay has not met a stored state yet looks four times as far in the next round; the last stop is its head.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from metering import cards, store
from metering.events import BILLABLE, Fact
from metering.faults import NO_RULINGS, Rulings, needs_ruling, rulings, tells_of_incident
from metering.heads import CHECKPOINT_FACTS, Head
from metering.names import Names
from metering.pieces import Piece, Rounding, billable_by_cards
from metering.posting import Difference, Window, difference, slices_of
from metering.proof import NO_PROOF, Proof
from metering.state import State, pack, unpack
from metering.store import Db, Span
from metering.ticks import ticks
from metering.timeline import Finding, Fold
from pricing.terms import Terms

LAST = 2**62


@dataclass(slots=True)
class Late:
    """An instance to be replayed from before ``since``; its state may be trusted again from ``until`` on.

    ``forced`` replays to the head whatever the states say (the terms changed, not the facts).
    """

    head: Head
    since: int
    until: int
    forced: bool = False


@dataclass(slots=True)
class Replayed:
    """What a replay changes: entries, checkpoints and findings of its window; the head where the window reached it."""

    window: Window
    change: Difference
    checkpoints: list[tuple[int, bytes]]
    findings: list[Finding]
    head: Head | None


@dataclass(slots=True)
class _Attempt:
    """One replay under way: the fold, states at stored checkpoints met, new checkpoints, where it ended."""

    start: int
    fold: Fold
    end: int = -1
    reached_head: bool = False
    checkpoints: list[tuple[int, bytes]] = field(default_factory=list)
    since_checkpoint: int = 0
    posted: int = -1


class Replay:
    """Replays of one transaction."""

    def __init__(self, db: Db, names: Names, terms: Terms) -> None:
        self._db, self._names, self._terms = db, names, terms

    def run(self, late: Mapping[int, Late]) -> dict[int, Replayed]:
        """Replay every instance; returns what has to be written for each."""
        found = store.checkpoints_before(self._db, [(number, each.since) for number, each in late.items()])
        before = {number: (second, unpack(state)) for number, (second, state) in found.items()}
        done: dict[int, _Attempt] = {}
        results: dict[int, Replayed] = {}
        waiting, reach = dict(late), 1
        while waiting:
            attempts = self._round(waiting, before, reach)
            ended = {number: each for number, each in attempts.items() if each.end >= 0 or each.reached_head}
            done.update(ended)
            results.update(self._compare(waiting, ended))
            again = self._unrounded(results, ended)
            for number, end in again.items():
                waiting[number].until = end
                results.pop(number)
            waiting = {number: each for number, each in waiting.items() if number not in results}
            reach *= 4
        return results

    def _round(
        self, late: Mapping[int, Late], before: Mapping[int, tuple[int, State]], reach: int
    ) -> dict[int, _Attempt]:
        """Fold each instance over a window that holds ``reach`` checkpoints after its late facts."""
        plain = [(number, each.until) for number, each in late.items() if not each.forced]
        ahead = store.checkpoints_from(self._db, plain, reach)
        spans = []
        for number in late:
            start = before.get(number, (-1, State()))[0]
            stops = ahead.get(number, [])
            spans.append(Span(number, start, stops[-1][0] if len(stops) == reach else LAST))
        facts = store.facts_in(self._db, spans)
        named = self._facts_ruled(facts)
        beating = [(span.instance, span.after) for span in spans if late[span.instance].head.beats]
        proofs = store.proofs_since(self._db, beating) if beating else {}
        attempts = {}
        for span in spans:
            number = span.instance
            verdicts = rulings(named[number]) if number in named else NO_RULINGS
            start, state = before.get(number, (-1, State()))
            proof = proofs.get(number, NO_PROOF)
            attempts[number] = self._fold(
                late[number], _Attempt(start, fold_from(state, self._terms, verdicts, proof, facts.get(number, ()))),
                facts.get(number, []), dict(ahead.get(number, ())), span.until == LAST,
            )  # fmt: skip
        return attempts

    def _facts_ruled(self, facts: Mapping[int, list[Fact]]) -> dict[int, list[Fact]]:
        """All facts, at any time, that have a say in the verdicts that some facts need."""
        every = [(number, fact) for number, found in facts.items() for fact in found if fact.name]
        names = {(number, fact.name or "") for number, fact in every if needs_ruling(fact)}
        others = {(number, fact.name or "") for number, fact in every if tells_of_incident(fact)} - names
        if others:
            names |= store.judged(self._db, others)
        return store.facts_named(self._db, names) if names else {}

    def _fold(
        self, late: Late, attempt: _Attempt, facts: list[Fact], stored: Mapping[int, bytes], to_head: bool
    ) -> _Attempt:
        """Fold until a stored state agrees, or to the head; ``end`` stays -1 where neither was met."""
        fold = attempt.fold
        until = LAST if to_head else max(stored)
        for second, own in ticks(facts, fold.proof, attempt.start, facts[-1].second if facts else -1):
            if second > until:
                break
            fold.tick(second, own)
            attempt.since_checkpoint += len(own)
            known = stored.get(second)
            if known is not None and not late.forced and known == pack(fold.state):
                attempt.end = second
                return attempt
            if attempt.since_checkpoint >= CHECKPOINT_FACTS:
                attempt.checkpoints.append((second, pack(fold.state)))
                attempt.since_checkpoint = 0
        if to_head:
            self._reach_head(late, attempt)
        return attempt

    def _reach_head(self, late: Late, attempt: _Attempt) -> None:
        """What was accrued beyond the last fact is wanted as the new state sees it."""
        attempt.reached_head = True
        fold, posted = attempt.fold, late.head.posted
        attempt.end = max(fold.state.second, posted, late.head.state.second)
        attempt.posted = max(fold.state.second, posted)
        if posted > fold.state.second:
            state, found = fold.state, len(fold.findings)
            attempt.posted = finish(fold, posted)
            fold.state = state
            del fold.findings[found:]

    # --- comparing -----------------------------------------------------------------------------------------------

    def _compare(self, late: Mapping[int, Late], ended: Mapping[int, _Attempt]) -> dict[int, Replayed]:
        spans = [Span(number, each.start, each.end + 1) for number, each in ended.items()]
        posted = store.posted_in(self._db, self._names, spans)
        padding = self._padding(ended)
        results = {}
        for number, attempt in ended.items():
            window = Window(attempt.start, attempt.end)
            pieces = [*attempt.fold.pieces, *padding.get(number, ())]
            wanted = slices_of(pieces, self._terms)
            change = difference(wanted, [p for p in posted.get(number, ()) if window.holds(p.slice.piece)], window)
            head = None
            if attempt.reached_head:
                old = late[number].head
                state = attempt.fold.state
                head = Head(old.version, attempt.posted, attempt.since_checkpoint, old.beats, state)
            results[number] = Replayed(window, change, attempt.checkpoints, attempt.fold.findings, head)
        return results

    def _padding(self, ended: Mapping[int, _Attempt]) -> dict[int, list[Piece]]:
        """The padding of sessions that ended inside the windows; what lies before a window is read from the ledger."""
        asked = [(number, each.run, attempt.start) for number, attempt in ended.items()
                 for each in attempt.fold.roundings if each.run < attempt.start]  # fmt: skip
        earlier = store.billable_before(self._db, asked) if asked else {}
        return {
            number: [
                pad(each, attempt.fold.pieces, earlier.get((number, each.run), ())) for each in attempt.fold.roundings
            ]
            for number, attempt in ended.items() if attempt.fold.roundings
        }  # fmt: skip

    def _unrounded(self, results: Mapping[int, Replayed], ended: Mapping[int, _Attempt]) -> dict[int, int]:
        """Instances whose change reaches a session that was rounded after the window, and the end of that session."""
        asked = []
        for number, attempt in ended.items():
            run = attempt.fold.state.run
            change = results[number].change
            touched = (*(p.slice.piece for p in change.reversed), *(s.piece for s in change.appended))
            if run >= 0 and not attempt.reached_head and any(p.kind == BILLABLE and p.run == run for p in touched):
                asked.append((number, run, attempt.end))
        return store.padding_after(self._db, asked) if asked else {}


def pad(rounding: Rounding, pieces: Iterable[Piece], earlier: Iterable[tuple[str, int]]) -> Piece:
    """A session's padding from its pieces at hand and what was billed of it before them."""
    before = [(cards.parse(written), seconds) for written, seconds in earlier]
    return rounding.padding([*before, *billable_by_cards(pieces, rounding.run)])


def fold_from(state: State, terms: Terms, verdicts: Rulings, proof: Proof, facts: Iterable[Fact]) -> Fold:
    """A fold that stands at a state, its heartbeats joined by the time-out of the account they belong to."""
    if proof.runs:
        account = state.account or next((f.data.account for f in facts if f.kind == 1), "")
        account = account or (proof.births[0].terms.account if proof.births else "")
        proof = proof.joined(terms.account(account).timeout)
    return Fold(state, terms, verdicts, proof)


def finish(fold: Fold, until: int) -> int:
    """Fold the edges of proof after the state, then classify what still runs up to an instant; returns that instant."""
    fold.proof = fold.proof.known_at(until)
    for second, own in ticks((), fold.proof, fold.state.second, until):
        fold.tick(second, own)
    return fold.finish(until)
