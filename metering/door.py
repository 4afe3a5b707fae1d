"""The door, without a database: each event is accepted, duplicate or rejected, once and for ever (R25, R26)."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256

from metering.events import HEARTBEAT, MAX_EVENT_BYTES, Fact, Unreadable, body_digest, read_event, same_body
from metering.history import Beats, Identity
from metering.lines import Line


@dataclass(frozen=True, slots=True)
class Reject:
    """An event that was refused: where it stood, why, and its id where that could be read."""

    position: str
    reason: str
    detail: str
    id: str | None


@dataclass(slots=True)
class Accepted:
    """What a stream of events comes to at the door: received = accepted + duplicate + rejected."""

    received: int = 0
    duplicates: int = 0
    rejected: int = 0
    facts: list[Fact] = field(default_factory=list)
    beats: dict[str, Beats] = field(default_factory=dict)
    bodies: dict[Identity, list[Fact]] = field(default_factory=dict)
    rejects: list[Reject] = field(default_factory=list)
    latest: int = -1


def readable(line: Line) -> Fact:
    """The fact in a line; raises ``Unreadable``."""
    if line.length > MAX_EVENT_BYTES:
        raise Unreadable("malformed", f"a line of {line.length} bytes; at most {MAX_EVENT_BYTES} are read")
    if line.raw.startswith(b"["):
        raise Unreadable("malformed", "event: an array; a file has one event, a JSON object, on each line")
    return read_event(line.raw)


def accept(lines: Iterable[Line]) -> Accepted:
    """Read a whole stream in order of arrival."""
    result = Accepted()
    first: dict[Identity, Fact] = {}
    kept: set[bytes] = set()
    for line in lines:
        result.received += 1
        try:
            fact = readable(line)
        except Unreadable as fault:
            result.rejected += 1
            digest = sha256(line.raw).digest()
            if digest not in kept:
                kept.add(digest)
                result.rejects.append(Reject(line.position, fault.reason, fault.detail, fault.id))
            continue
        fact.seq = result.received
        _take(result, first, fact, line)
    return result


def _take(result: Accepted, first: dict[Identity, Fact], fact: Fact, line: Line) -> None:
    if fact.kind == HEARTBEAT:
        result.beats.setdefault(fact.subject, Beats()).add(fact)
    else:
        identity = (fact.source, fact.id)
        known = first.setdefault(identity, fact)
        if known is not fact and same_body(known.raw, fact.raw):
            result.duplicates += 1
            return
        if known is not fact:
            _quarantine(result, fact, line)
            return
        result.facts.append(fact)
    result.latest = max(result.latest, fact.second)


def _quarantine(result: Accepted, fact: Fact, line: Line) -> None:
    result.rejected += 1
    others = result.bodies.setdefault((fact.source, fact.id), [])
    if not any(same_body(other.raw, fact.raw) for other in others):
        others.append(fact)
        detail = f"{fact.source}#{fact.id} came with another body before; this one has digest {body_digest(fact.raw)}"
        result.rejects.append(Reject(line.position, "conflict", detail, fact.id))
