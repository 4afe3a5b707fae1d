"""From an instance's facts to its timeline: a pure fold, second by second of what happened (R3 to R12).

``Fold`` carries a ``State`` forward. The dry run folds from birth, the recorder from wherever it stands: it is the
same code, so they cannot disagree. Facts must come in order of their seconds, those of one second together.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from msgspec import structs
from msgspec.structs import replace

from core.calendar import instant_of
from metering import cards
from metering.cards import Ranges
from metering.events import (
    BILLABLE,
    CLASS_NAMES,
    EXCLUSIONS,
    FAILURE,
    HEARTBEAT,
    IDLE,
    MAINTENANCE,
    MIGRATION,
    RESIZE,
    START,
    STOP,
    UNKNOWN,
    Fact,
    Started,
    is_decision,
)  # fmt: skip
from metering.faults import NO_RULINGS, Rulings
from metering.pieces import PACK, REFUND, Piece, Rounding, Series
from metering.proof import NO_PROOF, Proof
from metering.state import HeldPack, Incident, Session, State
from pricing.book import Plan
from pricing.terms import Schedule, Terms
from pricing.usage import Pack

DAY_S = 86400


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about an accepted event that a person should see (R26); rejects are findings too.

    ``seq`` is the event's number, -1 where heartbeats are meant.
    """

    kind: str
    second: int
    seq: int
    detail: str


def heard_once(findings: Iterable[Finding]) -> list[Finding]:
    """An instance's findings with those on heartbeats as one for each kind (settled: Heartbeats)."""
    told: list[Finding] = []
    heard: dict[str, list[Finding]] = {}
    for finding in findings:
        (told if finding.seq >= 0 else heard.setdefault(finding.kind, [])).append(finding)
    for kind, own in sorted(heard.items()):
        seconds = sorted({each.second for each in own})
        first, last = (instant_of(second).isoformat() for second in (seconds[0], seconds[-1]))
        detail = min(own, key=lambda each: (each.second, each.detail)).detail
        told.append(Finding(kind, seconds[0], -1, f"{detail}; first {first}, last {last}, count {len(seconds)}"))
    return told


REJECT_KINDS = ("no_price", "negative_session")


class Fold:
    """One instance's timeline from ``state`` on; what it finds is collected in the public lists.

    ``terms`` prices it, ``rulings`` and ``proof`` are what is known of its incidents, sessions and heartbeats. The
    state given is not changed: ``state`` is replaced, its parts are never shared with what was given.
    """

    __slots__ = ("_account", "findings", "pieces", "proof", "roundings", "rulings", "state", "terms")

    def __init__(self, state: State, terms: Terms, rulings: Rulings = NO_RULINGS, proof: Proof = NO_PROOF) -> None:
        self.state, self.terms, self.rulings, self.proof = state, terms, rulings, proof
        self.pieces: list[Piece] = []
        self.roundings: list[Rounding] = []
        self.findings: list[Finding] = []
        self._account = terms.account(state.sessions[0].account if state.sessions else state.account)

    # --- what moves it -------------------------------------------------------------------------------------------

    def tick(self, second: int, facts: Sequence[Fact]) -> None:
        """Advance to a second and apply its facts."""
        self.advance(second)
        before = self.state
        lifecycle = sorted([f for f in facts if f.kind < FAILURE and f.kind != HEARTBEAT], key=Fact.order)
        if lifecycle or self.proof.births:
            self._lifecycle(second, lifecycle)
        if len(lifecycle) < len(facts):
            self._incidents(second, sorted([f for f in facts if f.kind >= FAILURE], key=_starts_before_ends))
        if self.proof.runs:
            self._watch(second, before)
        if before.sessions:
            self._settle(before, second)

    def advance(self, second: int) -> None:
        """Classify the time from the state's second to a later proof (R9)."""
        state = self.state
        if second <= state.second:
            return
        if state.sessions:
            self._span(state.second, second, self._silent(state.second, second))
        self._replace(second=second)

    def finish(self, as_of: int) -> int:
        """Classify what still runs, to as-of where it is trusted, else to the latest proof (R9), and say how far."""
        state = self.state
        end = as_of
        if state.sessions and all(session.watched for session in state.sessions):
            end = max(state.second, self.proof.latest(as_of))
        if state.sessions and end > state.second:
            self._span(state.second, end, False)
        return end

    # --- time ----------------------------------------------------------------------------------------------------

    def _silent(self, start: int, end: int) -> bool:
        """Whether the time between two proofs is unknown."""
        if any(not session.watched for session in self.state.sessions):
            return False
        return end - start > self._account.timeout(start) and not self.proof.covers(start, end)

    def _span(self, start: int, end: int, silent: bool) -> None:
        """The pieces of a stretch in which no fact changes anything."""
        speaker = self.state.sessions[0]
        if not speaker.cards:
            return
        plan = self._plan(speaker, speaker.plan)
        if plan.pack:
            self._packed_span(speaker, plan, start, end, silent)
        else:
            self._classed(speaker, plan, cards.first(speaker.cards), start, end, silent, None)

    def _packed_span(self, speaker: Session, plan: Plan, start: int, end: int, silent: bool) -> None:
        """A stretch on a pack plan: packs start, renew and fall back on their way (R12)."""
        fallback = self._plan(speaker, plan.falls_back_to or plan.name)
        while start < end:
            self._renew(speaker, plan, start)
            stop = min([end, *(held.end for held in self.state.packs)])
            for held in self.state.packs:
                pack = Pack(held.start, held.end - held.start, Fraction(held.price))
                self._classed(speaker, plan, held.cards, start, stop, silent, pack)
            if self.state.fallen:
                self._classed(speaker, fallback, self.state.fallen, start, stop, silent, None)
            start = stop

    def _renew(self, speaker: Session, plan: Plan, second: int) -> None:
        """Packs that end now renew or fall back; cards without one start theirs."""
        running = [held for held in self.state.packs if held.end > second]
        fallen = self.state.fallen
        for held in self.state.packs:
            if held.end <= second and plan.renew:
                running += self._buy(speaker, plan, held.cards, held.anchor, held.number + 1, second)
            elif held.end <= second:
                fallen = cards.union(fallen, held.cards)
        covered = fallen
        for held in running:
            covered = cards.union(covered, held.cards)
        fresh = cards.difference(cards.first(speaker.cards), covered)
        if fresh:
            running += self._buy(speaker, plan, fresh, second, 0, second)
        self._replace(packs=tuple(running), fallen=fallen)

    def _buy(
        self, speaker: Session, plan: Plan, ranges: Ranges, anchor: int, number: int, second: int
    ) -> list[HeldPack]:
        """Charge a pack for each card, at the price of this second; without a price nothing is bought, and told."""
        price = self._schedule(speaker, plan.name).at(second)
        if price is None:
            self._find("no_price", second, speaker.evidence[-1], f"no price for {speaker.sku} on {plan.name}")
            return []
        end = second + DAY_S if plan.pack == "day" else self._account.calendar.month_anniversary(anchor, number + 1)
        pack = Pack(second, end - second, price)
        bought = cards.count(ranges)
        self.pieces.append(
            Piece(PACK, second, end, ranges, bought, _series(speaker), price, self.state.run, pack, speaker.evidence)
        )
        return [HeldPack(ranges, anchor, number, second, end, str(price), speaker.evidence)]

    def _classed(
        self, speaker: Session, plan: Plan, ranges: Ranges, start: int, end: int, silent: bool, pack: Pack | None
    ) -> None:
        """Pieces of some cards by class, cut where the price changes."""
        if pack is not None:
            prices: list[tuple[int, int, Fraction | None]] = [(start, end, pack.price)]
        else:
            prices = _priced(self._schedule(speaker, plan.name), start, end)
        series = Series(speaker.account, speaker.project, speaker.sku, plan.name, speaker.region)
        for klass, hit, evidence in self._classes(speaker, plan, silent):
            own = cards.intersection(hit, ranges) if hit != ranges else ranges
            for low, high, price in prices:
                if price is None:
                    self._find("no_price", low, speaker.evidence[-1], f"no price for {speaker.sku} on {plan.name}")
                elif own:
                    quantity = (high - low) * cards.count(own)
                    self.pieces.append(
                        Piece(klass, low, high, own, quantity, series, price, self.state.run, pack, evidence)
                    )

    def _classes(self, speaker: Session, plan: Plan, silent: bool) -> list[tuple[int, Ranges, tuple[int, ...]]]:
        """Every card of the instance in exactly one class, by precedence; under gang scope all in one (R6)."""
        whole = rest = cards.first(speaker.cards)
        opened = speaker.evidence
        open_incidents = [each for each in self.state.incidents if each.excluded]
        if not open_incidents and not silent:
            return [(BILLABLE, whole, opened)]
        found: list[tuple[int, Ranges, tuple[int, ...]]] = []
        for klass in (FAILURE, MIGRATION, MAINTENANCE, UNKNOWN, IDLE):
            causes = [each for each in open_incidents if each.klass == klass]
            hit: Ranges = rest if klass == UNKNOWN and silent else ()
            for cause in causes:
                hit = cards.union(hit, cards.intersection(cause.cards, rest))
            if not hit:
                continue
            evidence = opened + tuple(sorted(cause.evidence for cause in causes))
            if plan.gang and klass != IDLE:
                return [(klass, whole, evidence)]
            found.append((klass, hit, evidence))
            rest = cards.difference(rest, hit)
        return [*found, (BILLABLE, rest, opened)] if rest else found

    # --- sessions ------------------------------------------------------------------------------------------------

    def _lifecycle(self, second: int, facts: Sequence[Fact]) -> None:
        """In one second what runs stops, then starts, then their own stops, then resizes (settled: Same second)."""
        spare = self._stop(second, [fact for fact in facts if fact.kind == STOP])
        for fact in facts:
            if fact.kind == START:
                self._start(second, fact)
        self._births(second)
        for fact in spare:
            if self.state.session(fact.name):
                self._close(fact.name)
            else:
                self._find("stop_without_session", second, fact.seq, _none_runs(fact.name))
        for fact in facts:
            if fact.kind == RESIZE:
                self._resize(second, fact)

    def _stop(self, second: int, stops: Sequence[Fact]) -> list[Fact]:
        """Close what runs; returns the stops that found nothing, which may be those of starts of this second."""
        spare: list[Fact] = []
        stopped: set[str | None] = set()
        for fact in stops:
            if (fact.source, fact.id) in self.rulings.negative:
                self._find("negative_session", second, fact.seq, f"session {fact.name} had not started yet (R3)")
            elif fact.name not in stopped and self.state.session(fact.name):
                self._close(fact.name)
                stopped.add(fact.name)
            else:
                spare.append(fact)
        return spare

    def _start(self, second: int, fact: Fact) -> None:
        if (fact.source, fact.id) in self.rulings.negative:
            self._find("negative_start", second, fact.seq, f"a stop of session {fact.name} lies before it (R3)")
            self._replace(ever=True)
            return
        told: Started = fact.data
        running = self.state.session(fact.name)
        wanted = (told.account, told.project, told.region, told.sku, told.plan, told.cards)
        if running is not None:
            sku, plan, count = running.opened
            as_opened = (running.account, running.project, running.region, sku, plan, count)
            if wanted in (running.terms(), as_opened):
                self._find("second_start", second, fact.seq, "the session runs already on these terms")
                return
        if not self._priced(told.account, told.sku, told.plan, told.region, second, second):
            self._find("no_price", second, fact.seq, f"no price for {told.sku} on {told.plan}")
            return
        if running is not None:
            self._find("stop_missing", second, fact.seq, "another start ends the session that ran")
            self._close(fact.name)
        self._open(second, fact.name, told, fact.seq)

    def _open(self, second: int, name: str | None, told: Started, seq: int) -> None:
        opened = (told.sku, told.plan, told.cards)
        watched = self.proof.beats(name, second)
        terms = (told.account, told.project, told.region, told.sku, told.plan, told.cards)
        session = Session(name, second, *terms, opened, watched, (seq,))
        run = self.state.run if self.state.sessions else second
        self._replace(sessions=(*self.state.sessions, session), run=run, ever=True, account=told.account)
        self._speak()

    def _close(self, name: str | None) -> None:
        left = tuple(session for session in self.state.sessions if session.name != name)
        self._replace(sessions=left, run=self.state.run if left else -1)
        self._speak()

    def _resize(self, second: int, fact: Fact) -> None:
        session = self.state.session(fact.name)
        if session is None:
            self._find("resize_without_session", second, fact.seq, "no session of that name runs")
            return
        sku, plan = fact.data.sku or session.sku, fact.data.plan or session.plan
        if not self._priced(session.account, sku, plan, session.region, second, session.start):
            self._find("no_price", second, fact.seq, f"no price for {sku} on {plan}; the terms before run on")
            return
        count = session.cards if fact.data.cards is None else fact.data.cards
        terms = (session.account, session.project, session.region, sku, plan, count)
        evidence = (session.evidence[0], fact.seq)
        resized = Session(session.name, session.start, *terms, session.opened, session.watched, evidence)
        self._replace(sessions=tuple(resized if each is session else each for each in self.state.sessions))

    def _priced(self, account: str, sku: str, plan_name: str, region: str, second: int, session_start: int) -> bool:
        """Whether a session on these terms can be priced at a second; a pack that falls back needs both prices."""
        terms = self.terms.account(account)
        plan = terms.plan(plan_name, session_start)
        if plan is None or terms.schedule(sku, plan_name, region).at(second) is None:
            return False
        if plan.pack is None or plan.renew or plan.falls_back_to is None:
            return True
        return terms.schedule(sku, plan.falls_back_to, region).at(second) is not None

    # --- packs and rounding at a change --------------------------------------------------------------------------

    def _settle(self, before: State, second: int) -> None:
        """What a change of speaker, terms or cards ends: packs are refunded, an ended session is rounded."""
        after = self.state
        old = before.sessions[0]
        new = after.sessions[0] if after.sessions else None
        ended = new is None or after.run != before.run
        if ended and before.run < second:
            self._round(before, old, second)
        if not before.packs and not before.fallen:
            return
        goes_on = new is not None and not ended
        same = new is not None and (old.account, old.sku, old.plan) == (new.account, new.sku, new.plan)
        stay = cards.first(new.cards) if new is not None and goes_on and same else cards.NONE
        packs: list[HeldPack] = []
        for held in before.packs:
            leaving = cards.difference(held.cards, stay)
            if leaving and held.start < second < held.end:
                self._refund(before, old, held, leaving, second)
            staying = cards.intersection(held.cards, stay)
            if staying:
                packs.append(structs.replace(held, cards=staying))
        self._replace(packs=tuple(packs), fallen=cards.intersection(before.fallen, stay))

    def _refund(self, before: State, old: Session, held: HeldPack, leaving: Ranges, second: int) -> None:
        """Unused whole days of a pack that stops early come back; a started day counts as used (R12)."""
        unused = -(-(held.end - held.start) // DAY_S) - -(-(second - held.start) // DAY_S)
        if unused > 0:
            pack = Pack(held.start, held.end - held.start, Fraction(held.price))
            quantity = unused * cards.count(leaving)
            piece = Piece(
                REFUND, second - 1, second, leaving, quantity, _series(old), pack.price, before.run, pack, held.evidence
            )
            self.pieces.append(piece)

    def _round(self, before: State, last: Session, second: int) -> None:
        """Note the rounding of a session that has ended, by the plan and price of its last second (R10)."""
        terms = self.terms.account(last.account)
        plan, exempt = terms.plan(last.plan, last.start), cards.NONE
        if plan is not None and plan.pack:
            on_demand = before.fallen and plan.falls_back_to
            plan = terms.plan(plan.falls_back_to, last.start) if on_demand and plan.falls_back_to else None
            for held in before.packs:
                exempt = cards.union(exempt, held.cards)
        if plan is None or not plan.rounds:
            return
        price = terms.schedule(last.sku, plan.name, last.region).at(second - 1)
        if price is not None:
            series = _series(last)._replace(plan=plan.name)
            self.roundings.append(
                Rounding(before.run, second, plan.unit_s, plan.minimum_s, series, price, exempt, last.evidence)
            )

    # --- incidents and heartbeats --------------------------------------------------------------------------------

    def _incidents(self, second: int, facts: Iterable[Fact]) -> None:
        for fact in facts:
            if is_decision(fact.kind):
                continue
            if fact.kind in EXCLUSIONS:
                self._begin(second, fact)
            else:
                self._end(second, fact)

    def _begin(self, second: int, fact: Fact) -> None:
        named = self._named(second, fact)
        known = next((i for i in self.state.incidents if (i.klass, i.name) == (fact.kind, fact.name)), None)
        if known is not None:
            merged = Incident(known.klass, known.name, cards.union(known.cards, named), known.excluded, known.evidence)
            self._replace(incidents=tuple(merged if each is known else each for each in self.state.incidents))
            return
        incident = Incident(fact.kind, fact.data.incident, named, self._excluded(second, fact), fact.seq)
        order = sorted((*self.state.incidents, incident), key=lambda each: (each.klass, each.name))
        self._replace(incidents=tuple(order))

    def _named(self, second: int, fact: Fact) -> Ranges:
        """The cards that a fact speaks of; numbers that the instance does not have are noted and ignored."""
        if fact.data.cards is None:
            return cards.ALL
        named = cards.of(fact.data.cards)
        if not self.state.sessions:
            return named
        own = cards.first(self.state.sessions[0].cards)
        if foreign := cards.difference(named, own):
            self._find("unknown_card", second, fact.seq, f"the instance has no card {cards.text(foreign)[:60]}")
        return cards.intersection(named, own)

    def _excluded(self, second: int, fact: Fact) -> bool:
        ruling = self.rulings.of(fact.kind, fact.data.incident)
        if fact.kind != FAILURE:
            return ruling.fault != "user"
        table = self._account.xids(second)
        for xid in ruling.unlisted(table):
            self._find("unlisted_xid", second, fact.seq, f"XID {xid} is in no class; incident {fact.data.incident}")
        return ruling.excluded(table)

    def _end(self, second: int, fact: Fact) -> None:
        known = next((i for i in self.state.incidents if (i.klass, i.name) == (fact.kind - 10, fact.name)), None)
        if known is None:
            klass = CLASS_NAMES[fact.kind - 10]
            self._find("end_without_start", second, fact.seq, f"no {klass} {fact.data.incident} is open")
            return
        left = cards.difference(known.cards, self._named(second, fact))
        others = tuple(each for each in self.state.incidents if each is not known)
        if left:
            rest = Incident(known.klass, known.name, left, known.excluded, known.evidence)
            others = tuple(sorted((*others, rest), key=lambda each: (each.klass, each.name)))
        self._replace(incidents=others)

    def _births(self, second: int) -> None:
        """A full heartbeat of an instance that never had a session opens one (R9)."""
        for birth in self.proof.births:
            if birth.second == second and not self.state.ever:
                told = birth.terms
                if self._priced(told.account, told.sku, told.plan, told.region, second, second):
                    self._open(second, told.session, told, birth.evidence)
                else:
                    self._find("no_price", second, birth.evidence, f"no price for {told.sku} on {told.plan}")

    def _watch(self, second: int, before: State) -> None:
        """The first heartbeat of a session begins its watch; one without a session is noted (R9)."""
        for name, runs in self.proof.runs.items():
            if not any(first <= second <= last for first, last in runs):
                continue
            session = self.state.session(name)
            if session is None and before.session(name) is None and any(second in run for run in runs):
                self._find("heartbeat_without_session", second, -1, _none_runs(name))
            elif session is not None and not session.watched:
                watched = Session(
                    session.name, session.start, *session.terms(), session.opened, True, session.evidence
                )  # fmt: skip
                self._replace(sessions=tuple(watched if each is session else each for each in self.state.sessions))

    # --- small things --------------------------------------------------------------------------------------------

    def _replace(self, **parts: object) -> None:
        self.state = replace(self.state, **parts)

    def _speak(self) -> None:
        state = self.state
        self._account = self.terms.account(state.sessions[0].account if state.sessions else state.account)

    def _plan(self, session: Session, name: str) -> Plan:
        return self._account.plan(name, session.start) or Plan(name)

    def _schedule(self, session: Session, plan: str) -> Schedule:
        return self._account.schedule(session.sku, plan, session.region)

    def _find(self, kind: str, second: int, seq: int, detail: str) -> None:
        self.findings.append(Finding(kind, second, seq, detail))


def _none_runs(name: str | None) -> str:
    return f"no session {name} runs" if name else "no session runs"


def _priced(schedule: Schedule, start: int, end: int) -> list[tuple[int, int, Fraction | None]]:
    """A stretch cut where its price changes."""
    if schedule.until(start) >= end:
        return [(start, end, schedule.at(start))]
    parts = []
    while start < end:
        stop = min(end, schedule.until(start))
        parts.append((start, stop, schedule.at(start)))
        start = stop
    return parts


def _series(session: Session) -> Series:
    return Series(session.account, session.project, session.sku, session.plan, session.region)


def _starts_before_ends(fact: Fact) -> tuple[int, str, str]:
    return (fact.kind not in EXCLUSIONS, fact.source, fact.id)
