"""All that is known of one instance, in order: its facts without what was withdrawn, its heartbeats, its verdicts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from metering.events import HEARTBEAT, RESOLVED, RETRACTED, START, Fact, is_decision, names_body
from metering.faults import needs_ruling, rulings
from metering.pieces import Piece, billable_by_cards
from metering.proof import Birth, Proof, Run
from metering.state import State
from metering.ticks import ticks
from metering.timeline import Finding, Fold
from pricing.terms import Terms

Identity = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Timeline:
    """What an instance's history comes to: pieces with padding, findings, and the state at the end."""

    pieces: list[Piece]
    findings: list[Finding]
    state: State


@dataclass(slots=True)
class Beats:
    """Heartbeats of one instance as they come: single-second runs by session, and full descriptions."""

    runs: dict[str | None, list[Run]] = field(default_factory=dict)
    births: dict[str, Birth] = field(default_factory=dict)

    def add(self, fact: Fact) -> None:
        """Take one heartbeat; a repeated one changes nothing."""
        self.runs.setdefault(fact.name, []).append((fact.second, fact.second))
        told = fact.data.describes()
        if told is not None:
            key = msgspec.json.encode(told).decode()
            known = self.births.get(key)
            if known is None or fact.second < known.second:
                self.births[key] = Birth(fact.second, told, -1)

    def proof(self) -> Proof:
        """The beats as proof, runs not joined yet."""
        births = sorted(self.births.items(), key=lambda item: (item[1].second, item[0]))
        return Proof({name: tuple(runs) for name, runs in self.runs.items()}, tuple(birth for _, birth in births))


def standing(facts: Iterable[Fact], bodies: Mapping[Identity, list[Fact]] | None = None) -> list[Fact]:
    """The facts that stand after a person's decisions: withdrawn ones are left out, resolved conflicts replaced.

    ``bodies`` has the other bodies of each identity in conflict. A decision may itself be withdrawn by a later one.
    """
    known = list(facts)
    withdrawn: set[Identity] = set()
    chosen: dict[Identity, Fact | None] = {}
    for decision in sorted((f for f in known if f.kind in (RETRACTED, RESOLVED)), key=Fact.order, reverse=True):
        if (decision.source, decision.id) in withdrawn:
            continue
        meant = (decision.data.source, decision.data.id)
        if decision.kind == RETRACTED:
            withdrawn.add(meant)
        elif meant not in chosen:
            chosen[meant] = _body_named(decision, (bodies or {}).get(meant, []))
    kept = (_told_by(fact, chosen.get((fact.source, fact.id))) for fact in known)
    return [fact for fact in kept if (fact.source, fact.id) not in withdrawn]


def _told_by(fact: Fact, other: Fact | None) -> Fact:
    """What a fact says in the words of another body, under its own number."""
    if other is None:
        return fact
    return Fact(other.subject, other.second, other.kind, other.source, other.id, other.data, other.raw, fact.seq)


def _body_named(decision: Fact, others: Iterable[Fact]) -> Fact | None:
    """The body in conflict that a decision names, by its digest or in full; None where the first one stands."""
    for other in others:
        if names_body(decision.data.body, other.raw):
            return other
    return None


def fold_history(
    facts: Iterable[Fact], proof: Proof, terms: Terms, as_of: int, decided_at: int | None = None
) -> Timeline:
    """An instance's whole timeline from its standing facts in any order, as known at ``as_of`` (R24).

    A person's judgements are known up to ``decided_at`` where that is another instant.
    """
    decided = as_of if decided_at is None else decided_at
    told = sorted((f for f in facts if f.kind != HEARTBEAT), key=Fact.order)
    known = [f for f in told if f.second <= (decided if is_decision(f.kind) else as_of)]
    verdicts = rulings(f for f in known if needs_ruling(f))
    account = terms.account(first_account(known, proof))
    proof = proof.joined(account.timeout).known_at(as_of)
    fold = Fold(State(), terms, verdicts, proof)
    for second, own in ticks(known, proof, -1, as_of):
        fold.tick(second, own)
    fold.finish(as_of)
    padding = [each.padding(billable_by_cards(fold.pieces, each.run)) for each in fold.roundings]
    return Timeline([*fold.pieces, *(piece for piece in padding if piece.quantity)], fold.findings, fold.state)


def first_account(facts: Iterable[Fact], proof: Proof) -> str:
    """Whose time-out joins the beats of an instance: the account of its first start, else of its first description."""
    for fact in facts:
        if fact.kind == START:
            return str(fact.data.account)
    return proof.births[0].terms.account if proof.births else ""
